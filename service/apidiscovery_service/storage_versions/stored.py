"""Objects as they stand in the store: what is written, and how it is read again."""

from dataclasses import dataclass

import orjson

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects.decoding import Undecodable, from_value
from apidiscovery_service.kube.objects.kinds import Kind, Object
from apidiscovery_service.kube.objects.metadata import metadata_of, with_metadata
from apidiscovery_service.store import Entry


class Unreadable(DiscoveryError):
    """What stands in the store under the name of an object is none; an operator must act.

    Attributes:
        key: Where.
    """

    def __init__(self, key: str, why: str) -> None:
        super().__init__(f"what the store has at {key} is no object: {why}")
        self.key = key


@dataclass(frozen=True, slots=True)
class Stored:
    """An object as it stands in the store.

    Attributes:
        object: Canonical, `metadata.resourceVersion` is the revision; never changed in place.
        key: Where in the store.
        revision: Of the write that put it there.
        created: Revision of the write since which its name has been there without a gap.
    """

    object: Object
    key: str
    revision: int
    created: int

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return self.key.rpartition("/")[2]


def with_resource_version(value: Object, revision: int) -> Object:
    """Return the object with `metadata.resourceVersion` in its canonical place; 0 leaves it out."""
    return with_metadata(value, {"resourceVersion": str(revision) if revision else None})


def size_of(value: Object) -> int:
    """Return about how many bytes an object has in the store."""
    return len(orjson.dumps(value))


def from_entry(entry: Entry, kind: Kind) -> Stored:
    """Return the object that an entry is.

    Raises:
        Unreadable: It is none, or of another name than its key says.
    """
    try:
        parsed: JSONValue = orjson.loads(entry.value)
        decoded = from_value(parsed, kind).object
    except (ValueError, Undecodable, RecursionError) as error:
        raise Unreadable(entry.key, str(error)) from None
    name = metadata_of(decoded).get("name")
    if name != entry.key.rpartition("/")[2]:
        raise Unreadable(entry.key, f"its name is {name!r}")
    return Stored(
        with_resource_version(decoded, entry.revision), entry.key, entry.revision, entry.created
    )
