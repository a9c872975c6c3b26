"""Writes requests to DiscoveryService and reads its answers, with the messages of any library."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from apidiscovery_client._reading import UnreadableError
from apidiscovery_client._reading.protobuf import GroupReader
from apidiscovery_client.model import GroupVersion
from apidiscovery_client.transports._grpc_answers import (
    Answer,
    Changed,
    Difference,
    Message,
    Same,
    Source,
    Sources,
    Whole,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """The generated messages of one library, and the functions in which libraries differ.

    Attributes:
        messages: The module with the messages of DiscoveryService.
        versions: The values of DiscoveryVersion that are read, the best first.
        everything: The value of DiscoveryScope for all groups.
        has: Returns whether a message has a field that is a message.
        member: Returns the member of a oneof that is set; None when none is set.
        groups: Reads groups.
        since: Returns when the state of a source changed; None when the server does not know.
    """

    messages: Message
    versions: Sequence[int]
    everything: int
    has: Callable[[Message, str], bool]
    member: Callable[[Message, str], Message | None]
    groups: GroupReader
    since: Callable[[Message], datetime | None]


class Messages:
    """Requests and answers in the messages of one library.

    Readers raise `UnreadableError` for an answer without a result, and for a group without names.
    """

    def __init__(self, library: Library) -> None:
        self.library = library
        self._messages = library.messages

    def get_request(self, etag: str, known: Mapping[str, str] | None) -> Message:
        """Return a request for all groups, or for the difference to those with these hashes."""
        groups = {} if known is None else {"known_groups": self._known(known)}
        return self._messages.GetDiscoveryRequest(
            if_none_match=etag,
            accept_versions=self.library.versions,
            scope=self.library.everything,
            **groups,
        )

    def watch_request(self, known: Mapping[str, str], heartbeat_s: float) -> Message:
        """Return a request for the difference to these, and for later ones."""
        return self._messages.WatchDiscoveryRequest(
            accept_versions=self.library.versions,
            scope=self.library.everything,
            known_groups=self._known(known),
            heartbeat_interval=timedelta(seconds=heartbeat_s),
        )

    def sources_request(self) -> Message:
        """Return a request for the sources."""
        return self._messages.ListSourcesRequest()

    def answer(self, message: Message, at: datetime) -> Answer:
        """Return the answer of GetDiscovery."""
        hashes = {group.name: group.hash for group in message.group_hashes}
        result = self.library.member(message, "result")
        if isinstance(result, self._messages.NotModified):
            return Same(at, message.etag)
        if isinstance(result, self._messages.DiscoveryDelta):
            return self._difference(message.etag, result, at, hashes)
        if result is None:
            raise UnreadableError("the answer has no result that this client knows")
        items = [*result.core.items, *result.groups.items]  # of v2 or v2beta1
        groups = tuple(self.library.groups.group(item, at) for item in items)
        return Whole(at, message.etag, groups, hashes)

    def event(self, message: Message, at: datetime) -> Answer:
        """Return the message of WatchDiscovery."""
        event = self.library.member(message, "event")
        if event is not None and not hasattr(event, "delta"):
            return Same(at, event.etag)  # a heartbeat
        if event is None or not self.library.has(event, "delta"):
            raise UnreadableError("the message has no event that this client knows")
        return self._difference(event.etag, event.delta, at, None)

    def sources(self, message: Message) -> Sources:
        """Return the answer of ListSources."""
        return Sources(tuple(map(self._source, message.sources)))

    def _known(self, hashes: Mapping[str, str]) -> Message:
        return self._messages.KnownGroups(hashes=dict(hashes))

    def _difference(
        self, etag: str, delta: Message, at: datetime, hashes: Mapping[str, str] | None
    ) -> Difference:
        changed = [self._changed(change, at) for change in delta.changed]
        return Difference(at, etag, changed, tuple(delta.removed), hashes)

    def _changed(self, change: Message, at: datetime) -> Changed:
        item = self.library.member(change, "group")
        if item is None:
            raise UnreadableError(f"the changed group {change.name!r} has no content")
        group = self.library.groups.group(item, at)
        return Changed(change.name, change.hash, change.position, group)

    def _source(self, source: Message) -> Source:
        served = (offer for offer in source.group_versions if not offer.shadowed_by)
        return Source(
            name=source.name,
            since=self.library.since(source),
            error=source.error,
            serves=frozenset(GroupVersion(offer.group, offer.version) for offer in served),
        )
