"""Files that are read again when they change, and are used only if they can be.

They are looked at, not watched: a few files cost nothing to look at, and a look also sees what
network file systems and the links of mounted secrets do not announce.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import structlog

from apidiscovery_service.errors import InvalidConfiguration
from apidiscovery_service.serving.front.metrics import FrontMetrics

LOOK_EVERY_S = 0.5

T = TypeVar("T")

# Modification time in ns, size and inode of each file; None for one that is not there.
_Signature: TypeAlias = tuple[tuple[int, int, int] | None, ...]

_log = structlog.get_logger(__name__)


class Reload(Generic[T]):
    """Keeps something at what its files say.

    Args:
        what: Name for logs, metrics and warnings.
        paths: The files.
        read: Reads them, in a worker thread; raises InvalidConfiguration.
        use: Takes what was read, in the loop's thread.
        metrics: Where reads are counted.

    Attributes:
        value: What was read last and could be used.
        use: May be set later, for whoever needs the first value to exist.
    """

    def __init__(
        self,
        what: str,
        paths: Sequence[Path],
        read: Callable[[], T],
        use: Callable[[T], None] = lambda _: None,
        metrics: FrontMetrics | None = None,
    ) -> None:
        """Read for the first time.

        Raises:
            InvalidConfiguration: There is nothing to begin with.
        """
        self._what = what
        self._paths = tuple(paths)
        self._read = read
        self.use = use
        self._metrics = metrics or FrontMetrics()
        self._problem = ""
        # Before the read: what changes during it is seen by the next look.
        self._signature = self._look()
        self.value = read()

    def warnings(self) -> list[str]:
        """Return what is wrong with the files as they are now, for `/readyz?verbose`."""
        return [f"{self._what}: {self._problem}; what it was before is in use"] * bool(
            self._problem
        )

    async def renew(self) -> None:
        """Read again if a file has changed."""
        signature = await asyncio.to_thread(self._look)
        if signature == self._signature:
            return
        self._signature = signature
        try:
            value = await asyncio.to_thread(self._read)
        except InvalidConfiguration as error:
            self._problem = str(error)
            self._metrics.count_reload(self._what, success=False)
            _log.error("reload failed, what was there is kept", file=self._what, error=str(error))
            return
        self._problem = ""
        self.value = value
        self._metrics.count_reload(self._what, success=True)
        _log.info("reloaded", file=self._what)
        self.use(value)

    def _look(self) -> _Signature:
        return tuple(_signature(path) for path in self._paths)


async def follow(*reloads: Reload[Any]) -> None:
    """Keep all of them up to date until cancelled; a change is in use within a second."""
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        for reload in reloads:
            try:
                await reload.renew()
            except Exception:  # noqa: BLE001 - one file must not end the following of all
                _log.exception("reload failed")


def _signature(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None  # reading it says what is wrong
    return (status.st_mtime_ns, status.st_size, status.st_ino)
