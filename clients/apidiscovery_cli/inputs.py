"""Reads files that a user names, and standard input, never more of them than is wanted."""

import os
import sys
from typing import BinaryIO, cast

from apidiscovery_client import InvalidConfiguration

STDIN = "-"  # as users name it
_STDIN_NAME = "standard input"


class UnusableFile(InvalidConfiguration):
    """A file or standard input cannot be read, or not understood."""


def input_name(text: str) -> str:
    """Return what errors call the file that a text names: as it was typed, unless it is `-`."""
    return _STDIN_NAME if text == STDIN else text


def read_input(text: str, max_bytes: int) -> bytes:
    """Return what is in a file, or, for `-`, on standard input.

    Raises:
        UnusableFile: It has more than `max_bytes`; standard input is closed or cannot be read.
        OSError: The file cannot be read.
        ValueError: There is a null byte in its name.
    """
    if text == STDIN:
        return _stdin(max_bytes)
    with open(text, "rb") as file:  # noqa: PTH123 - for Path, the empty name is a folder
        return _whole(file, text, max_bytes)


def _stdin(max_bytes: int) -> bytes:
    if cast("object", sys.stdin) is None:
        raise UnusableFile(f"{_STDIN_NAME} cannot be read: it is closed")
    try:
        return _whole(sys.stdin.buffer, _STDIN_NAME, max_bytes)
    except OSError as error:
        reason = error.strerror or error
        raise UnusableFile(f"{_STDIN_NAME} cannot be read: {reason}") from None


def _whole(file: BinaryIO, name: str, max_bytes: int) -> bytes:
    """Return what is in a file, which may be a pipe, or a device that never ends."""
    content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        size = _size(file, len(content))
        raise UnusableFile(f"{name}: it has {size} bytes, more than {max_bytes}")
    return content


def _size(file: BinaryIO, seen: int) -> str:
    """Return the size of a file, or what was seen of one that does not say it."""
    end = file.seek(0, os.SEEK_END) if file.seekable() else 0
    return str(end) if end >= seen else f"at least {seen}"
