"""Manifest files and directories that are watched; each file is a source of its own.

A file that is not valid keeps its last valid content, since a half-saved file must not remove APIs.
Its error is in `problems` until it is corrected. A file that leaves its directory is withdrawn.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import structlog

from apidiscovery_service.core.source import Source, SourceState, SourceStatus
from apidiscovery_service.errors import DiscoveryError, InvalidDocument
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.sources.declarations import Declarations, Declared
from apidiscovery_service.sources.manifests.file import read_manifest
from apidiscovery_service.sources.watched_files import WatchedFiles

SUFFIXES = frozenset((".yaml", ".yml", ".json"))

_log = structlog.get_logger(__name__)


class InvalidManifests(DiscoveryError):
    """Manifest files are not valid at the start, so there is no last valid content.

    Attributes:
        errors: The error of each file, in order of path.
    """

    def __init__(self, errors: Sequence[InvalidDocument]) -> None:
        super().__init__("\n".join(map(str, errors)))
        self.errors = tuple(errors)


@dataclass(slots=True)
class _Outcome:
    """The result of reading files: made in a worker thread, applied in the event loop's."""

    good: dict[Path, Declared] = field(default_factory=dict[Path, Declared])
    bad: dict[Path, InvalidDocument] = field(default_factory=dict[Path, InvalidDocument])
    gone: frozenset[Path] = frozenset()
    empty: dict[Path, str] = field(default_factory=dict[Path, str])


class Manifests(Source):
    """Publishes declarations of files, and follows their changes.

    Args:
        paths: Files, and directories whose `.yaml`, `.yml` and `.json` files are read.
        declarations: The declarations to keep up to date.
        metrics: Counts loads and errors.
    """

    def __init__(self, paths: Sequence[Path], declarations: Declarations, metrics: Metrics) -> None:
        self._paths = tuple(paths)
        self._declarations = declarations
        self._metrics = metrics
        self._files = WatchedFiles(self._paths, self._find)
        self._problems: dict[Path, InvalidDocument] = {}
        self._empty: dict[Path, str] = {}

    @property
    def problems(self) -> Mapping[Path, InvalidDocument]:
        """The files that are not valid now, and their errors."""
        return MappingProxyType(self._problems)

    def warnings(self) -> list[str]:
        """Return a line for each problem, for `/readyz?verbose`.

        Names that several origins declare are included, also if the origins are not files.
        """
        broken: list[object] = [self._problems[path] for path in sorted(self._problems)]
        broken += self._empty.values()
        lines = [line for error in broken for line in str(error).splitlines()]
        return [f"manifests: {line}" for line in (*lines, *self._declarations.conflicts())]

    def states(self) -> list[SourceStatus]:
        """Return the status of each file that is not valid now."""
        return [
            SourceStatus(f"manifests:{path}", SourceState.STALE, error=str(error))
            for path, error in self._problems.items()
        ]

    async def load(self) -> None:
        """Read every file for the first time.

        Raises:
            InvalidManifests: Some are not valid; nothing is published then.
        """
        outcome = await asyncio.to_thread(self._read_changed)
        if outcome.bad:
            raise InvalidManifests([outcome.bad[path] for path in sorted(outcome.bad)])
        self._apply(outcome)

    async def follow(self) -> None:
        """Follow changes until cancelled; an edit is published within a fraction of a second."""
        async for _ in self._files.events():
            self._apply(await asyncio.to_thread(self._read_changed))

    def _read_changed(self) -> _Outcome:
        """Read the files that are new or changed; nothing is published yet."""
        changes = self._files.look()
        outcome = _Outcome(gone=changes.gone)
        outcome.empty = {
            path: _emptiness(path)
            for path in self._paths
            if path.is_dir() and not any(file.parent == path for file in changes.present)
        }
        for path in changes.changed:
            try:
                declared = read_manifest(path)
            except InvalidDocument as error:
                outcome.bad[path] = error
            except Exception as error:  # noqa: BLE001 - one file must not stop the watch of all
                _log.exception("manifest reader failed", file=str(path))
                message = f"the reader failed: {type(error).__name__}"
                outcome.bad[path] = InvalidDocument(message, file=str(path))
            else:
                outcome.good[path] = declared
        return outcome

    def _find(self) -> Iterable[Path]:
        """Yield the files to read; also a missing one, if it was given by name."""
        for path in self._paths:
            if not path.is_dir():
                yield path
                continue
            for member in path.iterdir():
                hidden = member.name.startswith(".")
                if member.suffix in SUFFIXES and not hidden and member.is_file():
                    yield member

    def _apply(self, outcome: _Outcome) -> None:
        for path, declared in outcome.good.items():
            self._clear_problem(path)
            self._metrics.manifest_loads.labels("success").inc()
            _log.info(
                "manifest loaded",
                file=str(path),
                offers=len(declared.offers),
                crds=len(declared.crds),
                api_services=len(declared.api_services),
            )
        for path, error in outcome.bad.items():
            self._note_problem(path, error)
        for path, text in outcome.empty.items():
            if path not in self._empty:
                _log.warning("manifests directory without manifests", reason=text)
        self._empty = outcome.empty
        for path in outcome.gone:
            self._clear_problem(path)
            _log.info("manifest gone", file=str(path))
        self._declarations.update(
            {_origin(path): declared for path, declared in outcome.good.items()},
            map(_origin, outcome.gone),
        )

    def _note_problem(self, path: Path, error: InvalidDocument) -> None:
        self._problems[path] = error
        self._metrics.manifest_errors.labels(str(path)).set(1)
        self._metrics.manifest_loads.labels("error").inc()
        for one in (error, *error.others):
            _log.error(
                "manifest broken, its last good content is kept",
                file=one.file,
                document=one.document,
                line=one.line,
                field=one.field,
                error=one.args[0],
            )

    def _clear_problem(self, path: Path) -> None:
        if self._problems.pop(path, None) is not None:
            self._metrics.manifest_errors.remove(str(path))


def _emptiness(path: Path) -> str:
    """Return a warning about a directory without manifests."""
    folders = sum(1 for one in path.iterdir() if one.is_dir() and not one.name.startswith("."))
    text = f"{path}: no .yaml, .yml or .json file in it"
    if not folders:
        return text
    return f"{text}; its {folders} folders are not read: give --manifests for each"


def _origin(path: Path) -> str:
    return f"manifests:{path}"
