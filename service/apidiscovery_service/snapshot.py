"""What is served at one moment: frozen, ordered and hashed.

A snapshot is never changed, only replaced, so readers need no lock. Groups carry over from one
snapshot to the next by identity; whatever was derived from a group (`PublishedGroup.fragments`)
carries over with it, and that is what makes a change of one group cost one group.
"""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, takewhile
from operator import is_
from typing import Protocol, TypeAlias

from apidiscovery_service import go_json
from apidiscovery_service.group_document import group_value
from apidiscovery_service.model import Group

# Priority (negated), rank, name: ascending order is document order.
GroupKey: TypeAlias = tuple[int, int, str]

_HEAD = b'{"metadata":{},"items":['
_TAIL = b"]}"

# Of so many groups about one ends a run; a divisor of 256.
_RUN_GROUPS = 64


@dataclass(eq=False)
class PublishedGroup:
    """A group in its place, with what is derived from it.

    Attributes:
        name: The group's name, empty for the core group.
        key: Its place in the aggregated document.
        list_key: Its place in the unaggregated list of groups, which breaks ties otherwise.
        json: The canonical JSON of the item, in v2 and v2beta1 alike.
        hash: Opaque; equal if and only if `json` and `key` are, on every replica.
        ends_run: Whether a run of groups ends with this one.
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
        self.ends_run = hashlib.blake2s(self.name.encode()).digest()[0] % _RUN_GROUPS == 0


class _HashState(Protocol):
    """A hash that can be continued from here in more than one way."""

    def copy(self) -> "_HashState": ...
    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


@dataclass(eq=False)
class Run:
    """Neighbouring groups, with what is derived from them together.

    Where a run ends is decided by the name of its last group alone. So the same groups make the
    same runs whatever happened before, and a group that comes, goes or changes touches one run.

    Attributes:
        json: The canonical JSON of the items, separated by commas.
        fragments: Encoded forms of this run, kept by the encodings under names of theirs.
    """

    groups: tuple[PublishedGroup, ...]
    fragments: dict[str, bytes] = field(default_factory=dict[str, bytes], repr=False)

    def __post_init__(self) -> None:
        self.json = b",".join([group.json for group in self.groups])


class Document:
    """One of the two aggregated documents, `/api` or `/apis`, apart from any encoding.

    Attributes:
        groups: In document order.
        runs: The same groups; runs of the document before are taken over.
        etag: Upper-case hex SHA-512, unquoted, of the v2 JSON without kind and apiVersion, as
            k8s.io/apiserver pkg/endpoints/discovery/aggregated/etag.go:calculateETag makes it.
            The same for every representation.
    """

    def __init__(
        self, groups: tuple[PublishedGroup, ...], previous: "Document | None" = None
    ) -> None:
        self.groups = groups
        self.runs: tuple[Run, ...] = _runs(groups, previous.runs if previous else ())
        self._states = self._hash_states(previous)
        digest = self._states[-1].copy()
        digest.update(_TAIL)
        self.etag = digest.hexdigest().upper()

    def _hash_states(self, previous: "Document | None") -> list[_HashState]:
        """Return the state of the hash before the first run and after each.

        What is the same as in `previous`, from the first run on, is not hashed again: SHA-512 can
        only go forward, and takes longer than all the rest of a publication.
        """
        former = previous.runs if previous else ()
        same = sum(1 for _ in takewhile(bool, map(is_, self.runs, former)))
        states: list[_HashState] = [hashlib.sha512(_HEAD)]
        if previous is not None:
            states = previous._states[: same + 1]  # noqa: SLF001 - of this class
        for place in range(same, len(self.runs)):
            state = states[-1].copy()
            if place:
                state.update(b",")
            state.update(self.runs[place].json)
            states.append(state)
        return states

    @property
    def json_bytes(self) -> int:
        """The size of the canonical JSON of the items, but for the commas between runs."""
        return sum(len(run.json) for run in self.runs)

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


def _runs(groups: tuple[PublishedGroup, ...], former: tuple[Run, ...]) -> tuple[Run, ...]:
    ends = [place for place, group in enumerate(groups, 1) if group.ends_run]
    if groups and (not ends or ends[-1] != len(groups)):
        ends.append(len(groups))
    known = {run.groups[0]: run for run in former}
    runs: list[Run] = []
    for start, end in pairwise((0, *ends)):
        members = groups[start:end]
        run = known.get(members[0])
        runs.append(run if run and run.groups == members else Run(members))
    return tuple(runs)


def _document(groups: tuple[PublishedGroup, ...], previous: Document | None) -> Document:
    if previous is not None and groups == previous.groups:
        return previous
    return Document(groups, previous)
