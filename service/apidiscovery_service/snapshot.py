"""What is served at one moment: frozen, ordered and hashed.

A snapshot is never changed, only replaced, so readers need no lock. Groups carry over from one
snapshot to the next by identity; whatever was derived from a group (`PublishedGroup.fragments`)
carries over with it, and that is what makes a change of one group cost one group.
"""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeAlias

from apidiscovery_service import go_json
from apidiscovery_service.group_document import group_value
from apidiscovery_service.model import Group

# Priority (negated), rank, name: ascending order is document order.
GroupKey: TypeAlias = tuple[int, int, str]

_HEAD = b'{"metadata":{},"items":['
_TAIL = b"]}"

# Groups between two kept states of the hash: a change re-hashes from the state before it. One
# state takes some 300 bytes.
_CHECKPOINT_GROUPS = 64


@dataclass(eq=False)
class PublishedGroup:
    """A group in its place, with what is derived from it.

    Attributes:
        name: The group's name, empty for the core group.
        key: Its place in the aggregated document.
        list_key: Its place in the unaggregated list of groups, which breaks ties otherwise.
        json: The canonical JSON of the item, in v2 and v2beta1 alike.
        hash: Opaque; equal if and only if the content and `key` are, on every replica.
        fragments: Encoded forms of this group, kept by the encodings under names of theirs.
    """

    group: Group
    key: GroupKey
    list_key: GroupKey
    fragments: dict[str, bytes] = field(default_factory=dict[str, bytes], repr=False)

    def __post_init__(self) -> None:
        self.name = self.group.name
        self.json = go_json.dumps(group_value(self.group))
        digest = hashlib.sha256(self.json)
        digest.update(repr(self.key).encode())
        self.hash = digest.hexdigest()[:32]


class _HashState(Protocol):
    """A hash that can be continued from here in more than one way."""

    def copy(self) -> "_HashState": ...
    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


class Document:
    """One of the two aggregated documents, `/api` or `/apis`, apart from any encoding.

    Attributes:
        groups: In document order.
        etag: Upper-case hex SHA-512, unquoted, of the v2 JSON without kind and apiVersion, as
            k8s.io/apiserver pkg/endpoints/discovery/aggregated/etag.go:calculateETag makes it.
            The same for every representation.
    """

    def __init__(
        self, groups: tuple[PublishedGroup, ...], previous: "Document | None" = None
    ) -> None:
        self.groups = groups
        self._states = self._hash_states(previous)
        digest = self._states[-1].copy()
        digest.update(_TAIL)
        self.etag = digest.hexdigest().upper()

    def _hash_states(self, previous: "Document | None") -> list[_HashState]:
        """Return the state of the hash before each run of groups and after the last.

        Runs that are the same as in `previous`, from the first one on, are not hashed again:
        states[k] covers groups[: k * _CHECKPOINT_GROUPS].
        """
        states: list[_HashState] = [hashlib.sha512(_HEAD)]
        same = previous is not None
        for k, start in enumerate(range(0, len(self.groups), _CHECKPOINT_GROUPS)):
            run = self.groups[start : start + _CHECKPOINT_GROUPS]
            if same and previous is not None:
                same = run == previous.groups[start : start + _CHECKPOINT_GROUPS]
            if same and previous is not None:
                states.append(previous._states[k + 1])  # noqa: SLF001 - of this class
                continue
            state = states[-1].copy()
            state.update((b"," if start else b"") + b",".join([group.json for group in run]))
            states.append(state)
        return states

    @cached_property
    def by_name(self) -> dict[str, PublishedGroup]:
        """The groups by name."""
        return {group.name: group for group in self.groups}

    @cached_property
    def listed(self) -> tuple[PublishedGroup, ...]:
        """The groups in the order of the unaggregated list (`/apis` as APIGroupList)."""
        return tuple(sorted(self.groups, key=lambda group: group.list_key))


class Snapshot:
    """Both documents at one moment.

    Attributes:
        core: What `/api` serves: at most the core group.
        named: What `/apis` serves: every other group.
    """

    def __init__(
        self,
        core: tuple[PublishedGroup, ...] = (),
        named: tuple[PublishedGroup, ...] = (),
        previous: "Snapshot | None" = None,
    ) -> None:
        self.core: Document = _document(core, previous.core if previous else None)
        self.named: Document = _document(named, previous.named if previous else None)

    def __repr__(self) -> str:
        return f"<Snapshot {len(self.named.groups)} groups, /apis {self.named.etag[:12]}>"


def _document(groups: tuple[PublishedGroup, ...], previous: Document | None) -> Document:
    if previous is not None and groups == previous.groups:
        return previous
    return Document(groups, previous)
