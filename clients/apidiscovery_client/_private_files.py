"""Folders of files that only this user can write, with a limited size.

A file is written completely or not at all, also when the process is killed or several processes
write it. Only regular files of this user in a folder of this user are read; links are not followed.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FOLDER_MODE = 0o700
_FILE_MODE = 0o600
_NOT_ONLY_OURS = stat.S_IWGRP | stat.S_IWOTH
_TEMPORARY = ".tmp"
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
# Opening a named pipe must not wait for a writer.
_READ_FLAGS = os.O_RDONLY | _NOFOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class PrivateFolder:
    """A folder of such files; its methods raise `OSError`, also where others can write.

    Attributes:
        suffixes: Of the files that count; others are left alone.
        max_bytes: Of all files together, and of what is read of one.
    """

    path: Path
    suffixes: tuple[str, ...]
    max_bytes: int
    max_files: int

    def read(self, name: str) -> bytes:
        """Return the first `max_bytes` of a file."""
        self._check()
        path = self.path / name
        with open(os.open(path, _READ_FLAGS), "rb") as file:  # noqa: PTH123 - it has no Path
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or not _is_ours(status):
                raise PermissionError(f"{path} is not a file that only its owner can write")
            return file.read(self.max_bytes)

    def write(self, name: str, content: bytes) -> None:
        """Write a file, and remove the least recently used ones beyond the limits."""
        self.path.mkdir(_FOLDER_MODE, parents=True, exist_ok=True)
        self._check()
        _replace(self.path / name, content)
        self._make_room()

    def mark_used(self, name: str) -> None:
        """Make a file the most recently used one."""
        os.utime(self.path / name)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        self._check()
        (self.path / name).unlink(missing_ok=True)

    def _check(self) -> None:
        if not _is_ours(self.path.stat()):
            raise PermissionError(f"{self.path} is not a folder that only its owner can write")

    def _make_room(self) -> None:
        kept_bytes = 0
        newest_first = sorted(self._files(), reverse=True)
        for kept_files, (_, size, path) in enumerate(newest_first, start=1):
            kept_bytes += size
            if kept_files > self.max_files or kept_bytes > self.max_bytes:
                path.unlink(missing_ok=True)

    def _files(self) -> Iterator[tuple[int, int, Path]]:
        """Yield when each file was last used, in nanoseconds, its size in bytes, and its path."""
        for path in self.path.iterdir():
            if path.suffix in self.suffixes or path.suffix == _TEMPORARY:
                with contextlib.suppress(OSError):
                    status = path.lstat()
                    yield status.st_mtime_ns, status.st_size, path


def _is_ours(status: os.stat_result) -> bool:
    """Return whether only this user can write a file or folder."""
    is_owner = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
    return is_owner and not (os.name == "posix" and status.st_mode & _NOT_ONLY_OURS)


def _replace(path: Path, content: bytes) -> None:
    # Without tempfile, whose import takes longer than all the rest.
    temporary = path.with_name(f"{path.name}.{os.getpid()}-{os.urandom(8).hex()}{_TEMPORARY}")
    descriptor = os.open(temporary, _WRITE_FLAGS, _FILE_MODE)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor has no Path
            file.write(content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def cache_folder(part: str) -> Path:
    """Return the folder of one cache: `apidiscovery/PART` where kubectl has its caches.

    That is `$KUBECACHEDIR`, or `~/.kube/cache` when that is not set: kubectl's rule and not that of
    the XDG Base Directory Specification, so that all caches of clusters are moved, mounted or
    cleared together. The folder is our own because kubectl's files have another format.
    Source: cli-runtime genericclioptions/config_flags.go `getDefaultCacheDir`.

    A user without a home directory gets a path that cannot be created, which means no cache.
    """
    try:
        base = os.environ.get("KUBECACHEDIR") or Path.home() / ".kube" / "cache"
    except RuntimeError:
        base = os.devnull
    return Path(base) / "apidiscovery" / part
