"""What a text may say: a name with a group and a version, or all of that at once."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from apidiscovery_client.model import GroupVersion

INTERNAL_VERSION = "__internal"  # what apimachinery calls the version of no encoding

_GO_STRING = re.compile(
    r"(?:(?P<group>[^/,]*)/)?(?P<version>[^/,]+), (?:Kind|Resource)=(?P<name>.+)"
)


@dataclass(frozen=True, slots=True)
class Reading:
    """A name in some group and version.

    Attributes:
        name: A plural, singular or short name or a kind, as it was typed.
        group: The group or how its name begins; empty for any group.
        version: Empty for any version.
        is_whole: Whether the group is all of its name, so that an empty one is the core group.
    """

    name: str
    group: str = ""
    version: str = ""
    is_whole: bool = False

    def __str__(self) -> str:
        if self.version:
            return f"{self.name}.{self.version}.{self.group}"
        return f"{self.name}.{self.group}" if self.group else self.name

    def admits(self, gv: GroupVersion) -> bool:
        """Return whether the name may be found in this group-version."""
        if self.version not in ("", INTERNAL_VERSION, gv.version):
            return False
        return gv.group == self.group if self.is_whole else gv.group.startswith(self.group)


@dataclass(frozen=True, slots=True)
class Exact:
    """A name in exactly one group-version.

    Attributes:
        name: A plural or a kind.
        subresource: Empty for the resource itself.
    """

    gv: GroupVersion
    name: str
    subresource: str = ""


def readings(text: str) -> tuple[Reading, ...]:
    """Return what `NAME`, `NAME.GROUP` or `NAME.VERSION.GROUP` may say, in kubectl's order.

    A text with two dots or more is first read with a version. One that ends in a dot names a
    version of any group: `pods.v1.`.
    Source: apimachinery pkg/runtime/schema/group_version.go `ParseResourceArg`.
    """
    name, _, group = text.partition(".")
    version, dot, rest = group.partition(".")
    whole = Reading(name, group)
    return (Reading(name, rest, version), whole) if dot else (whole,)


def exact_forms(text: str) -> Iterator[Exact]:
    """Yield what a text says with a whole group-version, the likeliest first.

    The forms are `GROUP/VERSION/NAME`, for the core group `VERSION/NAME`, each with a
    `/SUBRESOURCE` when wanted, and what apimachinery prints of a kind or a resource:
    `apps/v1, Kind=Deployment`.
    """
    if printed := _GO_STRING.fullmatch(text):
        yield Exact(GroupVersion(printed["group"] or "", printed["version"]), printed["name"])
    parts = text.split("/")
    match parts if all(parts) else ():
        case [version, name]:
            yield Exact(GroupVersion("", version), name)
        case [first, second, third]:
            yield Exact(GroupVersion(first, second), third)
            yield Exact(GroupVersion("", first), second, third)
        case [group, version, name, subresource]:
            yield Exact(GroupVersion(group, version), name, subresource)
        case _:
            pass
