"""Reads files that a user names, up to a size, and writes them as a whole or not at all."""

import os
import stat
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO, cast

from apidiscovery_client import DiscoveryError, InvalidConfiguration

STDIN = "-"  # on a command line
_STDIN_NAME = "standard input"


class UnusableFile(InvalidConfiguration):
    """A file or standard input cannot be read or parsed."""


class CannotWrite(DiscoveryError):
    """A file or folder that the user named cannot be written."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"{path} cannot be written: {error.strerror or error}")


def input_name(text: str) -> str:
    """Return the name of a file in errors: as it was typed, or `standard input` for `-`."""
    return _STDIN_NAME if text == STDIN else text


def read_input(text: str, max_bytes: int) -> bytes:
    """Return the content of a file, or of standard input for `-`.

    Raises:
        UnusableFile: It is larger than `max_bytes`; standard input is closed or cannot be read.
        OSError: The file cannot be read.
        ValueError: There is a null byte in its name.
    """
    if text == STDIN:
        return _read_stdin(max_bytes)
    with open(text, "rb") as file:  # noqa: PTH123 - for Path, the empty name is a folder
        return _read_bounded(file, text, max_bytes)


def _read_stdin(max_bytes: int) -> bytes:
    if cast("object", sys.stdin) is None:
        raise UnusableFile(f"{_STDIN_NAME} cannot be read: it is closed")
    try:
        return _read_bounded(sys.stdin.buffer, _STDIN_NAME, max_bytes)
    except OSError as error:
        reason = error.strerror or error
        raise UnusableFile(f"{_STDIN_NAME} cannot be read: {reason}") from None


def _read_bounded(file: BinaryIO, name: str, max_bytes: int) -> bytes:
    """Return the content of a file, which may be a pipe or an endless device."""
    content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        size = _size(file, len(content))
        raise UnusableFile(f"{name}: it has {size} bytes, more than {max_bytes}")
    return content


def _size(file: BinaryIO, seen: int) -> str:
    """Return the size of a file, or a lower bound for one that cannot seek."""
    end = file.seek(0, os.SEEK_END) if file.seekable() else 0
    return str(end) if end >= seen else f"at least {seen}"


def write_file(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all; raise `CannotWrite`.

    A symbolic link stays a link: its target is replaced. A device or a pipe is written to and not
    replaced: `/dev/null` must stay a device.
    """
    try:
        _write(path, content)
    except OSError as error:
        raise CannotWrite(path, error) from error


def make_folder(path: Path) -> None:
    """Make a folder and its parents where they do not exist; raise `CannotWrite`."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(path, error) from error


def _write(path: Path, content: bytes) -> None:
    mode = _mode(path)
    if mode is None:
        _write_read_bounded(path, content, 0o666 & ~_umask())
    elif stat.S_ISREG(mode):
        _write_read_bounded(path, content, stat.S_IMODE(mode))
    else:
        path.write_bytes(content)


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _write_read_bounded(path: Path, content: bytes, permissions: int) -> None:
    path = Path(os.path.realpath(path))
    # Not derived from the file's name, which may be as long as the file system allows.
    descriptor, temporary = tempfile.mkstemp(".tmp", prefix=".apidiscovery.", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor has no Path
            file.write(content)
        Path(temporary).chmod(permissions)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
