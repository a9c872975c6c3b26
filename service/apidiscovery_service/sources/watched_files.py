"""Files that are watched: which of them are new, changed or gone since the last look."""

import os
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import watchfiles

# From the first event to the reload: long enough for an editor to finish, and well below a second.
_DEBOUNCE_MS = 150
_STEP_MS = 25

# Files are also checked without an event: network file systems have none, a link into another
# directory is not watched, and a directory may go and come back.
_CHECK_EVERY_MS = 500

# Modification time in ns, size and inode, which change when a file does.
_Signature: TypeAlias = tuple[int, int, int]
_ABSENT: _Signature = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The changes of files since the look before.

    Attributes:
        present: All of them.
        changed: Those that are new or have changed, sorted.
        gone: Those that are no longer there.
    """

    present: frozenset[Path]
    changed: tuple[Path, ...]
    gone: frozenset[Path]


class WatchedFiles:
    """Files, and directories with files.

    Args:
        paths: What is watched. A file is watched through its directory: editors and mounts of
            ConfigMaps and Secrets replace it.
        find: Yields the files that are there now, and those that should be; may block.
    """

    def __init__(self, paths: Sequence[Path], find: Callable[[], Iterable[Path]]) -> None:
        self._paths = tuple(paths)
        self._find = find
        self._signatures: dict[Path, _Signature] = {}

    def look(self) -> FileChanges:
        """Return what has changed since the last look; blocks, so it is called in a thread.

        A change is reported once: a caller that cannot use the file now must retry by itself.
        """
        present = {path: _signature(path) for path in self._find()}
        changed = [path for path, seen in present.items() if self._signatures.get(path) != seen]
        gone = self._signatures.keys() - present.keys()
        self._signatures = present
        return FileChanges(frozenset(present), tuple(sorted(changed)), frozenset(gone))

    async def events(self) -> AsyncGenerator[None]:
        """Yield when it is time to look: soon after a change, and at least twice a second.

        Ends at once if nothing is watched.
        """
        if not self._paths:
            return
        directories = {path if path.is_dir() else path.parent for path in self._paths}
        directories |= {path.parent for path in self._paths if path.is_symlink()}
        changes = watchfiles.awatch(  # pyright: ignore[reportUnknownMemberType] - trio is not there
            *(directory for directory in directories if directory.is_dir()),
            watch_filter=None,
            debounce=_DEBOUNCE_MS,
            step=_STEP_MS,
            recursive=False,
            rust_timeout=_CHECK_EVERY_MS,
            yield_on_timeout=True,
        )
        async with aclosing(changes):
            async for _ in changes:
                yield


def _signature(path: Path) -> _Signature:
    try:
        status = os.stat(path)  # noqa: PTH116 - called for a thousand files twice a second
    except OSError:
        return _ABSENT  # reading it reports the error
    return (status.st_mtime_ns, status.st_size, status.st_ino)
