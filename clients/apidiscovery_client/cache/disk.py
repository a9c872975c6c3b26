"""A cache of snapshots: a folder with a file for each server and user."""

import contextlib
import re
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

from apidiscovery_client._interfaces import FetchedSnapshot
from apidiscovery_client._package import Log
from apidiscovery_client._private_files import PrivateFolder, cache_folder
from apidiscovery_client.cache import file_format

MAX_BYTES = 64 << 20  # a snapshot of 10 000 resources has 3 MB
MAX_FILES = 200

_log = Log("apidiscovery_client.cache")
_KEY = re.compile(r"[0-9a-f]{64}")
_SUFFIX = ".discovery"
_MAX_SKEW = timedelta(minutes=1)  # of the clocks of machines that share a folder


def default_folder() -> Path:
    """Return the folder for snapshots, by the rule of `cache_folder`."""
    return cache_folder("discovery")


class DiskCache:
    """A folder of snapshots; nothing in it is needed, and no failure of it is an error.

    What goes wrong is logged by `apidiscovery_client.cache` at level DEBUG. Any number of
    processes and threads may use the same folder, and threads the same object. Names of files are
    keys as `cache.key` makes them; every method raises `ValueError` for another.
    """

    def __init__(
        self,
        folder: Path | None = None,
        max_bytes: int = MAX_BYTES,
        max_files: int = MAX_FILES,
    ) -> None:
        """Use a folder, which is made when it is needed.

        Args:
            folder: None for `default_folder()`.
            max_bytes: Of all files together; the least recently used go first.
            max_files: The same, as a number.
        """
        self._files = PrivateFolder(folder or default_folder(), (_SUFFIX,), max_bytes, max_files)
        self._lock = threading.Lock()
        self._last: tuple[str, file_format.CachedFile] | None = None

    @property
    def folder(self) -> Path:
        """Return where the files are."""
        return self._files.path

    def get(self, key: str) -> FetchedSnapshot | None:
        """Return the snapshot that was put last; None when there is none that can be trusted.

        It has the ETags that its documents prove. Without an ETag it is a last known state, to be
        requested again.
        """
        name = _file_name(key)
        try:
            entry = file_format.read(key, self._files.read(name))
            _check_time(entry.fetched.snapshot.checked_at)
        except FileNotFoundError:
            return None
        except file_format.UntrustedFileError as error:
            _log.debug("removed, for it cannot be trusted: %s: %s", self.folder / name, error)
            self.remove(key)
            return None
        except (OSError, ValueError) as error:  # ValueError: a path that no file can have
            _log.debug("not read: %s", error)
            return None
        with contextlib.suppress(OSError):  # the folder may be one to read only
            self._files.mark_used(name)
        self._remember(key, entry)
        return entry.fetched

    def put(self, key: str, fetched: FetchedSnapshot) -> None:
        """Store a snapshot, in place of the one under that key."""
        name = _file_name(key)
        try:
            entry = self._known(key, fetched) or file_format.make_entry(fetched)
            content = file_format.write(key, entry)
            if len(content) <= self._files.max_bytes:
                self._files.write(name, content)
                self._remember(key, entry)
            else:
                _log.debug("not kept, for it has %d bytes: %s", len(content), name)
        except (OSError, ValueError, TypeError, RecursionError) as error:
            _log.debug("not kept: %s: %s", self.folder / name, error)

    def remove(self, key: str) -> None:
        """Remove the snapshot of that key."""
        name = _file_name(key)
        try:
            self._files.remove(name)
        except (OSError, ValueError) as error:
            _log.debug("not removed: %s", error)

    def _known(self, key: str, fetched: FetchedSnapshot) -> "file_format.CachedFile | None":
        """Return the last entry with the time of `fetched`, after "not modified".

        Then the groups are the same object, and their documents need not be written again.
        """
        with self._lock:
            last = self._last
        if last is None or last[0] != key:
            return None
        return last[1].renewed(fetched)

    def _remember(self, key: str, entry: "file_format.CachedFile") -> None:
        with self._lock:
            self._last = (key, entry)


def _file_name(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise ValueError(f"{key!r} is not a cache key; want 64 hexadecimal digits")
    return key + _SUFFIX


def _check_time(checked_at: datetime) -> None:
    """Refuse a snapshot from the future, which would seem fresh for as long as that is away."""
    if checked_at > datetime.now(UTC) + _MAX_SKEW:
        raise file_format.UntrustedFileError(
            f"it was checked at {checked_at.isoformat()}, in the future"
        )
