"""A client or command line in its own process, controlled by lines on stdin.

    client_child.py CLIENT TARGET FOLDER

CLIENT is a name in `DRIVERS`; TARGET is `http://HOST:PORT`, or `grpc://...` for those that talk
gRPC; in FOLDER are `kubeconfig` and whatever the client keeps on disk. A line is one of `STEPS`
with its arguments, as a JSON list. Each is answered with one line: the seconds, what was found or
the error, what was written to stderr or logged meanwhile, what the client has counted, and its
peak memory. It ends when its stdin does.

Only what the client needs is imported here, since memory is measured.
"""

import contextlib
import io
import json
import logging
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

Found = tuple[str, str, str, bool]  # group, version, plural, whether it is namespaced

# The module and the class that drives a client; None for a bare interpreter. A driver is made with
# TARGET and FOLDER. `find(kind, group, version)` returns the client's `Found` for a kind, or raises
# its error; some have `check()`, which verifies the cache, and `watch(kind, group, told)`, which
# calls `told` when the watch is established and returns a kind of a group that comes later.
DRIVERS: Mapping[str, tuple[str, str] | None] = {
    "nothing": None,
    "ours, asyncio": ("client_ours", "OverAsyncio"),
    "ours, sync": ("client_ours", "Sync"),
    "ours, gRPC": ("client_ours", "OverAsyncio"),
    "ours, gRPC betterproto": ("client_ours", "WithBetterproto"),
    "ours, command line": ("client_drivers", "Ours"),
    "kubectl": ("client_drivers", "Kubectl"),
    "kubernetes": ("client_drivers", "Official"),
    "kubernetes_asyncio": ("client_drivers", "OfficialAsyncio"),
    "kr8s": ("client_drivers", "Kr8s"),
    "lightkube": ("client_drivers", "Lightkube"),
}


def main() -> None:
    name, target, folder = sys.argv[1:]
    driver: object = None
    found = DRIVERS[name]
    if found is not None:
        module, cls = found
        make: Callable[[str, Path], object] = getattr(import_module(module), cls)
        driver = make(target, Path(folder))
    _say({"ready": True})
    for line in sys.stdin:
        step, *arguments = json.loads(line)
        _say(_done(driver, step, arguments))
    close = getattr(driver, "close", None)
    if close is not None:
        close()


def _done(driver: object, step: str, arguments: list[str]) -> dict[str, object]:
    """Do a step and return what there is to tell of it."""
    answer: object = None
    error = ""
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    logging.getLogger().addHandler(handler)
    started = time.perf_counter()
    with contextlib.redirect_stderr(heard):
        try:
            if driver is not None:
                more = [lambda: _say({"watching": True})] if step == "watch" else []
                answer = getattr(driver, step)(*arguments, *more)
        except Exception as failure:  # noqa: BLE001 - it is what is measured
            error = f"{type(failure).__name__}: {failure}"
    seconds = time.perf_counter() - started
    logging.getLogger().removeHandler(handler)
    return {
        "seconds": seconds,
        "found": answer,
        "error": error,
        "heard": heard.getvalue(),
        "traffic": getattr(driver, "traffic", {}),
        "peak_kb": getattr(driver, "peak_kb", _peak_kb)(),
    }


def _peak_kb() -> int:
    """Return the most resident memory that this process has had, in kB."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return int(text.partition("VmHWM:")[2].split()[0])


def _say(line: Mapping[str, object]) -> None:
    sys.__stdout__.write(json.dumps(line) + "\n")  # type: ignore[union-attr]  # it is a pipe
    sys.__stdout__.flush()  # type: ignore[union-attr]  # the same


if __name__ == "__main__":
    main()
