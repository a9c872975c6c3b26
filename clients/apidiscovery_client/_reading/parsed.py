"""What reading a document gives."""

from dataclasses import dataclass

from apidiscovery_client.model import Group, GroupVersion


class UnreadableError(ValueError):
    """A body is not the document that its Content-Type promises."""


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """What one of `/api` and `/apis` tells.

    Attributes:
        groups: In the order of the document.
        is_aggregated: Whether it tells the resources of each version too; if not, the versions
            are `Unknown` until their own documents have been read.
    """

    groups: tuple[Group, ...]
    is_aggregated: bool


def check_group_version(wanted: GroupVersion, seen: str) -> None:
    """Raise `UnreadableError` for a list that says it is of another group-version."""
    if seen not in ("", str(wanted)):
        raise UnreadableError(f"the resources are of {seen!r}, not of {wanted}")
