"""Writes files and folders that a user asks for, whole or not at all."""

import os
import stat
import tempfile
from pathlib import Path

from apidiscovery_client import DiscoveryError


class CannotWrite(DiscoveryError):
    """A file or folder that was asked for cannot be written."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"{path} cannot be written: {error.strerror or error}")


def write_file(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all; raise `CannotWrite`.

    A link stays one, and the file that it leads to is written. What is no file, such as a device
    or a pipe, is written to as it is, and not replaced: `/dev/null` must stay what it is.
    """
    try:
        _write(path, content)
    except OSError as error:
        raise CannotWrite(path, error) from error


def make_folder(path: Path) -> None:
    """Make a folder and those above it, where they are not there; raise `CannotWrite`."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(path, error) from error


def _write(path: Path, content: bytes) -> None:
    mode = _mode(path)
    if mode is None:
        _write_whole(path, content, 0o666 & ~_umask())
    elif stat.S_ISREG(mode):
        _write_whole(path, content, stat.S_IMODE(mode))
    else:
        path.write_bytes(content)


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _write_whole(path: Path, content: bytes, permissions: int) -> None:
    path = Path(os.path.realpath(path))
    # Not the name of the file before it: a name may be as long as a file system has them.
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
