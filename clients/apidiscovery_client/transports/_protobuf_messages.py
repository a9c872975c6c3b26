"""The messages of DiscoveryService, as google.protobuf has them."""

from datetime import UTC, datetime

from apidiscovery.service.v1 import discovery_pb2 as pb

from apidiscovery_client._reading.protobuf import READER
from apidiscovery_client.transports._grpc_answers import Message
from apidiscovery_client.transports._grpc_messages import Library, Messages


def _member(message: Message, oneof: str) -> Message | None:
    name = message.WhichOneof(oneof)
    return None if name is None else getattr(message, name)


def _since(source: pb.DiscoverySource) -> datetime | None:
    return source.since.ToDatetime(UTC) if source.HasField("since") else None


MESSAGES = Messages(
    Library(
        messages=pb,
        versions=(pb.DISCOVERY_VERSION_V2, pb.DISCOVERY_VERSION_V2BETA1),
        everything=pb.DISCOVERY_SCOPE_ALL,
        has=lambda message, name: bool(message.HasField(name)),
        member=_member,
        groups=READER,
        since=_since,
    )
)
