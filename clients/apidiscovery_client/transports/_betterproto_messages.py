"""The messages and stubs of DiscoveryService, as betterproto has them.

No other module knows the generated code of betterproto.
"""

from collections.abc import Mapping
from datetime import datetime

from apidiscovery_client._errors import MissingExtra
from apidiscovery_client._reading.protobuf import GroupReader
from apidiscovery_client._writing import PROTOBUF_EXTRA
from apidiscovery_client.model import NO_EXTRAS
from apidiscovery_client.transports._grpc_answers import SERVICE, Message
from apidiscovery_client.transports._grpc_common import CountingChannel
from apidiscovery_client.transports._grpc_messages import Library, Messages

try:
    import betterproto
    from apidiscovery_betterproto.apidiscovery.service import v1
    from grpclib.client import Channel
except ModuleNotFoundError as error:
    raise MissingExtra("betterproto", "betterproto") from error


class SyncStub:
    """The methods of DiscoveryService over a blocking channel of grpcio.

    betterproto generates stubs for asyncio only.
    """

    def __init__(self, channel: CountingChannel) -> None:
        self.GetDiscovery = channel.unary_unary(
            f"/{SERVICE}/GetDiscovery", bytes, v1.GetDiscoveryResponse.FromString
        )
        self.WatchDiscovery = channel.unary_stream(
            f"/{SERVICE}/WatchDiscovery", bytes, v1.WatchDiscoveryResponse.FromString
        )
        self.ListSources = channel.unary_unary(
            f"/{SERVICE}/ListSources", bytes, v1.ListSourcesResponse.FromString
        )


def async_stub(channel: Channel) -> v1.DiscoveryServiceStub:
    """Return the generated stub, over a channel of grpclib."""
    return v1.DiscoveryServiceStub(channel)


def _has(message: betterproto.Message, name: str) -> bool:
    return betterproto.serialized_on_wire(getattr(message, name))


def _member(message: betterproto.Message, oneof: str) -> Message | None:
    return betterproto.which_one_of(message, oneof)[1]


def _extras(message: betterproto.Message) -> Mapping[str, object]:
    unknown: bytes = message._unknown_fields  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - betterproto has no other way to them
    return {PROTOBUF_EXTRA: unknown} if unknown else NO_EXTRAS


def _since(source: v1.DiscoverySource) -> datetime | None:
    # For betterproto an absent time is that of all zeros.
    return source.since if source.since.timestamp() else None


MESSAGES = Messages(
    Library(
        messages=v1,
        # Members as attributes are plain integers to type checkers.
        versions=[v1.DiscoveryVersion.from_string(name) for name in ("V2", "V2BETA1")],
        everything=v1.DiscoveryScope.from_string("ALL"),
        has=_has,
        member=_member,
        groups=GroupReader(_has, _extras),
        since=_since,
    )
)
