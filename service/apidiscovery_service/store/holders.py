"""The names under which processes hold claims, and what such a name tells of its process.

A lease says that its holder is gone only some seconds after it went. Of a process of this machine
that can be known at once, so a server that was killed and started again need not wait for itself.
"""

import os
import secrets
import socket
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")

# In /proc/PID/stat, after the command in parentheses: proc(5), field 22.
_START_FIELD = 22 - 3


def own_holder() -> str:
    """Return a name for this process that no other one has, anywhere, before or after.

    It consists of host, process and where such processes can be compared.
    """
    pid = os.getpid()
    return " ".join((socket.gethostname(), _scope(), str(pid), _started(pid), secrets.token_hex(4)))


def is_gone(holder: str) -> bool:
    """Tell whether a process has certainly ended; False where that cannot be known from here."""
    parts = holder.split(" ")
    if len(parts) != 5 or not parts[2].isdecimal():  # noqa: PLR2004 - those of `own_holder`
        return False
    _, scope, pid, started, _ = parts
    # Process numbers mean something under one kernel and in one namespace only: containers of a
    # machine each have a process 1.
    return bool(_scope()) and scope == _scope() and _started(int(pid)) != started


def _scope() -> str:
    """Return the kernel's boot and the namespace of process numbers; empty where unknown."""
    try:
        boot = _BOOT_ID.read_text(encoding="ascii").strip()
        return f"{boot}/{_PID_NAMESPACE.readlink()}"
    except OSError:
        return ""


def _started(pid: int) -> str:
    """Return when a process began, in ticks since boot; empty when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[_START_FIELD]
