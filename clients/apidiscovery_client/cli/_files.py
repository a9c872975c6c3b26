"""Writes files and folders that a user asks for, whole or not at all."""

import os
import tempfile
from pathlib import Path

from apidiscovery_client._errors import DiscoveryError


class CannotWrite(DiscoveryError):
    """A file or folder that was asked for cannot be written."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"{path} cannot be written: {error.strerror or error}")


def write_file(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all; raise `CannotWrite`."""
    try:
        _write_whole(path, content)
    except OSError as error:
        raise CannotWrite(path, error) from error


def make_folder(path: Path) -> None:
    """Make a folder and those above it, where they are not there; raise `CannotWrite`."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(path, error) from error


def _write_whole(path: Path, content: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(".tmp", prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor has no Path
            file.write(content)
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
