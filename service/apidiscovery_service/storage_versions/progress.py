"""How far API servers agree on the storage versions that somebody waits for."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from apidiscovery_service.kube.objects.kinds import Object
from apidiscovery_service.storage_versions.agreement import Status
from apidiscovery_service.storage_versions.status_fields import status_of


@dataclass(frozen=True, slots=True)
class Target:
    """What is waited for.

    Attributes:
        name: Of the StorageVersion.
        encoding_version: On which servers are to agree; empty for any.
    """

    name: str
    encoding_version: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far servers agree on one resource. Servers are named by identity, in order.

    Attributes:
        name: Of the StorageVersion.
        object: None while no server has reported.
        agreed: Whether all that have reported write one version, and that is the one waited for.
        agreeing: Those that write the version waited for: the target's, or the one that all write,
            or else the one that most write, and of several that first by name.
        lagging: Those that write another one.
        unreported: Members that have reported no resource at all.
    """

    name: str
    object: Object | None
    agreed: bool
    agreeing: tuple[str, ...] = ()
    lagging: tuple[str, ...] = ()
    unreported: tuple[str, ...] = ()


def progress(
    targets: Sequence[Target], objects: Mapping[str, Object], unreported: tuple[str, ...]
) -> tuple[Progress, ...]:
    """Return how far each target has been reached, in their order.

    Args:
        targets: What is waited for.
        objects: StorageVersions by name; those of the targets are enough.
        unreported: The members that have reported nothing.
    """
    return tuple(_of(target, objects.get(target.name), unreported) for target in targets)


def is_done(progresses: Iterable[Progress]) -> bool:
    """Tell whether every target has been reached."""
    return all(each.agreed for each in progresses)


def _of(target: Target, value: Object | None, unreported: tuple[str, ...]) -> Progress:
    status = status_of(value) if value is not None else Status()
    if value is None or not status.entries:
        return Progress(target.name, None, agreed=False, unreported=unreported)
    wanted = target.encoding_version or _favourite(status)
    agreeing = {e.api_server_id for e in status.entries if e.encoding_version == wanted}
    lagging = {e.api_server_id for e in status.entries if e.encoding_version != wanted}
    return Progress(
        target.name,
        value,
        agreed=not lagging,
        agreeing=tuple(sorted(agreeing)),
        lagging=tuple(sorted(lagging)),
        unreported=unreported,
    )


def _favourite(status: Status) -> str:
    """Return the version that all or most write."""
    counted = Counter(entry.encoding_version for entry in status.entries)
    return min(counted, key=lambda version: (-counted[version], version))
