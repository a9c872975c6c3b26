"""Runs the blocks of a guide as a reader would: in order, in one shell, in one folder."""

import os
import random
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from guide_blocks import Block
from server import environment

LIMIT_S = 300.0

_MARK = "#### block at line"
_PORT = re.compile(r"""(?:(?<=127\.0\.0\.1:)|(?<=127\.0\.0\.1", ))[1-9]\d{3,4}\b""")
# Below those of programs.free_port.
_FREE = {4: range(3000, 10000), 5: range(10000, 20000)}


def session(guide_blocks: Iterable[Block], folder: Path) -> dict[int, str]:
    """Return what each block printed that is run, by the line of its fence.

    Ports are exchanged for free ones of as many digits, and back again in what is returned.

    Raises:
        AssertionError: A block failed, or they took too long together.
    """
    told = list(guide_blocks)
    ports = _free_ports(block.text for block in told)
    script = folder / ".session"
    script.write_text("".join(_step(block, ports, folder) for block in told), encoding="utf-8")
    return _by_line(
        _exchanged(_run(script, folder, ports), {new: old for old, new in ports.items()})
    )


def _step(block: Block, ports: Mapping[str, str], folder: Path) -> str:
    if block.word == "file":
        waiting = folder / f".files/{block.line}"
        waiting.parent.mkdir(exist_ok=True)
        waiting.write_text(_exchanged(block.text, ports), encoding="utf-8")
        return f'mkdir -p "$(dirname {block.rest})"; cp {waiting} {block.rest}\n'
    if block.word == "run":
        return f"echo '{_MARK} {block.line}'\n{_exchanged(block.text, ports)}"
    return ""


def _exchanged(text: str, ports: Mapping[str, str]) -> str:
    return _PORT.sub(lambda found: ports.get(found[0], found[0]), text)


def _free_ports(texts: Iterable[str]) -> dict[str, str]:
    """Return another port for each that is named."""
    named = dict.fromkeys(["50051", *(port for text in texts for port in _PORT.findall(text))])
    found: dict[str, str] = {}
    for port in named:
        found[port] = _free_port(len(port), taken=set(found.values()))
    return found


def _free_port(digits: int, taken: set[str]) -> str:
    candidates = _FREE[digits]
    for port in random.Random(os.urandom(8)).sample(candidates, len(candidates)):  # noqa: S311 - any
        if str(port) not in taken and _is_free(port):
            return str(port)
    raise AssertionError(f"no port of {digits} digits is free")


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def _run(script: Path, folder: Path, ports: Mapping[str, str]) -> str:
    """Return what the script prints, on stderr as well."""
    variables = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONDONTWRITEBYTECODE": "1",
        # Plugins of the environment that the tests of a reader know nothing of.
        "PYTEST_ADDOPTS": "-p no:asyncio -p no:cacheprovider",
        # The address that is meant where none is named.
        "APIDISCOVERY_GRPC_SERVER": f"127.0.0.1:{ports['50051']}",
    }
    with (folder / ".printed").open("w+b") as printed:
        process = subprocess.Popen(  # noqa: S603 - what the guides say
            ["/bin/bash", "--norc", "-e", str(script)],
            cwd=folder,
            env=environment(folder, variables),
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code: int | str = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            code = f"nothing within {LIMIT_S:g} s"
        finally:
            _end(process)
        printed.seek(0)
        text = printed.read().decode()
    assert code == 0, f"the shell ended with {code}:\n{text}"
    return text


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the shell and all that it has left running: its process group is theirs alone."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _by_line(text: str) -> dict[int, str]:
    pieces = re.split(rf"^{_MARK} (\d+)\n", text, flags=re.MULTILINE)
    return {int(line): printed for line, printed in zip(pieces[1::2], pieces[2::2], strict=True)}
