"""The documents that are served at one moment: frozen, ordered and hashed.

A snapshot is never changed, only replaced, so readers need no lock. Successive snapshots share
groups, chunks of groups and everything derived from them, so a change of one group costs little
more than that group.
"""

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import takewhile
from operator import is_
from typing import Protocol

from apidiscovery_service.core import chunks
from apidiscovery_service.core.chunks import Chunk, PublishedGroup
from apidiscovery_service.core.model import CORE_GROUP

_HEAD = b'{"metadata":{},"items":['
_TAIL = b"]}"


class _HashState(Protocol):
    """A hash object that can be copied and continued."""

    def copy(self) -> "_HashState": ...
    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


class Document:
    """One of the two aggregated documents, `/api` or `/apis`, apart from any encoding.

    Attributes:
        chunks: The groups in document order, cut into chunks.
    """

    def __init__(
        self,
        made: Sequence[Chunk] = (),
        previous: "Document | None" = None,
        listed: Sequence[str] = (),
    ) -> None:
        self.chunks = tuple(made)
        self._previous = previous
        self._listed = listed

    @classmethod
    def of(cls, groups: Iterable[PublishedGroup], listed: Sequence[str] = ()) -> "Document":
        """Return the document of groups in document order.

        Args:
            groups: The groups.
            listed: Their names in the order of the unaggregated list, those that are missing last;
                empty for the order of their keys.
        """
        return cls(chunks.cut(tuple(groups)), listed=listed)

    def changed(
        self, fresh: Sequence[PublishedGroup], gone: Sequence[PublishedGroup]
    ) -> "Document":
        """Return the document without some of its groups and with others; itself if unchanged."""
        return Document(chunks.changed(self.chunks, fresh, gone), self) if fresh or gone else self

    @cached_property
    def etag(self) -> str:
        """Upper-case hex SHA-512, unquoted, of the v2 JSON without kind and apiVersion.

        The same for every representation. It is computed on first use, without the GIL.
        Source: k8s.io/apiserver pkg/endpoints/discovery/aggregated/etag.go:calculateETag.
        """
        digest = self._states[-1].copy()
        digest.update(_TAIL)
        return digest.hexdigest().upper()

    @cached_property
    def _states(self) -> list[_HashState]:
        """The state of the hash before the first chunk and after each.

        The chunks before the first one that differs from the former document are not hashed again,
        since SHA-512 takes longer than all the rest of a publication.
        """
        states: list[_HashState] = [hashlib.sha512(_HEAD)]
        previous, self._previous = self._previous, None
        if previous is not None:
            same = sum(1 for _ in takewhile(bool, map(is_, self.chunks, previous.chunks)))
            states = previous._states[: same + 1]  # noqa: SLF001 - of this class
        for place in range(len(states) - 1, len(self.chunks)):
            state = states[-1].copy()
            if place:
                state.update(b",")
            state.update(self.chunks[place].json)
            states.append(state)
        return states

    @property
    def json_bytes(self) -> int:
        """The size of the canonical JSON of the items, but for the commas between chunks."""
        return sum(len(chunk.json) for chunk in self.chunks)

    @property
    def size(self) -> int:
        """The number of groups."""
        return sum(len(chunk.groups) for chunk in self.chunks)

    @cached_property
    def groups(self) -> tuple[PublishedGroup, ...]:
        """The groups in document order."""
        return tuple([group for chunk in self.chunks for group in chunk.groups])

    @cached_property
    def by_name(self) -> dict[str, PublishedGroup]:
        """The groups by name."""
        return {group.name: group for group in self.groups}

    @cached_property
    def listed(self) -> tuple[PublishedGroup, ...]:
        """The groups in the order of the unaggregated list (`/apis` as APIGroupList)."""
        if self._listed:
            places = {name: place for place, name in enumerate(self._listed)}
            return tuple(sorted(self.groups, key=lambda g: places.get(g.name, len(places))))
        return tuple(sorted(self.groups, key=lambda group: group.list_key))


class Snapshot:
    """Both documents at one moment.

    Attributes:
        core: What `/api` serves: at most the core group.
        named: What `/apis` serves: every other group.
    """

    def __init__(self, core: Document | None = None, named: Document | None = None) -> None:
        self.core = core or Document()
        self.named = named or Document()

    def changed(
        self, fresh: Iterable[PublishedGroup], gone: Iterable[PublishedGroup]
    ) -> "Snapshot":
        """Return the snapshot without some of its groups and with others."""
        fresh_core, fresh_named = _split(fresh)
        gone_core, gone_named = _split(gone)
        return Snapshot(
            self.core.changed(fresh_core, gone_core), self.named.changed(fresh_named, gone_named)
        )

    def etags(self) -> tuple[str, str]:
        """Return the ETags of both documents, computed by the first call."""
        return self.core.etag, self.named.etag

    def __repr__(self) -> str:
        return f"<Snapshot {self.named.size} groups, /apis {self.named.etag[:12]}>"


def _split(
    groups: Iterable[PublishedGroup],
) -> tuple[list[PublishedGroup], list[PublishedGroup]]:
    """Return the core group, if it is among them, and the named groups."""
    core: list[PublishedGroup] = []
    named: list[PublishedGroup] = []
    for group in groups:
        (core if group.name == CORE_GROUP else named).append(group)
    return core, named
