"""The Accept header of requests, and what the Content-Type of an answer promises.

The request does not decide: servers before 1.26 ignore the parameters, 1.27 to 1.29 know
only v2beta1, and proxies rewrite either header. Only the Content-Type of the answer counts.
"""

from dataclasses import dataclass

from apidiscovery_formats.media_types import (
    AGGREGATED_GROUP,
    AGGREGATED_KIND,
    JSON,
    PROTOBUF,
    aggregated,
    parse_media_type,
)

VERSIONS = ("v2", "v2beta1")  # in order of preference

ACCEPT_PLAIN = JSON
# A server takes the first that it can do: the order is that of preference. Without q, for apiserver
# sorts by it (munnerz/goautoneg `ParseAccept`), and equal ones keep their order.
ACCEPT_JSON = ",".join([*(aggregated(JSON, v) for v in VERSIONS), ACCEPT_PLAIN])
ACCEPT = ",".join(
    [*(aggregated(kind, v) for v in VERSIONS for kind in (PROTOBUF, JSON)), ACCEPT_PLAIN]
)


class UnexpectedTypeError(ValueError):
    """The Content-Type is of something that was not asked for."""


@dataclass(frozen=True, slots=True)
class Promise:
    """What the body must be.

    Attributes:
        api_version: None where none is promised: unaggregated documents may go without.
        is_protobuf: Whether it is protobuf, in its envelope; else it is JSON.
    """

    kind: str
    api_version: str | None = None
    is_protobuf: bool = False

    @property
    def aggregated(self) -> bool:
        """Whether groups come with their resources."""
        return self.kind == AGGREGATED_KIND

    def broken_by(self, content_type: str | None, kind: str, api_version: str) -> str:
        """Return why a body of that kind is not what was promised; empty when it is."""
        if kind == self.kind and self.api_version in (None, api_version):
            return ""
        wanted = f"{self.kind} {self.api_version or ''}".rstrip()
        seen = f"{kind} {api_version}".strip() or "of no kind"
        return f"the content type {content_type!r} promises {wanted}, but the body is {seen}"


def promised(content_type: str | None, plain_kind: str) -> Promise:
    """Return what the body of an answer must be, judged by its Content-Type alone.

    Three cases, the first and last as client-go discovery/discovery_client.go `ContentTypeIsGVK`:
    1. JSON or protobuf with the parameters g and as of an aggregated list: that list, in the
       version v.
    2. Another type than these: nothing that was asked for.
    3. Anything else, also no Content-Type or a malformed one: `plain_kind`. In protobuf it was
       not asked for, but servers that ignore the parameters send it.

    Raises:
        UnexpectedTypeError: Case 2, or an aggregated list in a version that was not asked for.
    """
    media_type = parse_media_type(content_type) if content_type else None
    if media_type is None:
        return Promise(plain_kind)
    if media_type.range not in (JSON, PROTOBUF):
        raise UnexpectedTypeError(f"the content type is {content_type!r}, not {JSON!r}")
    is_protobuf = media_type.range == PROTOBUF
    version = media_type.aggregated_version
    if version is None:
        return Promise(plain_kind, is_protobuf=is_protobuf)
    if version not in VERSIONS:
        message = f"{AGGREGATED_GROUP} version {version!r} was not asked for: {content_type!r}"
        raise UnexpectedTypeError(message)
    return Promise(AGGREGATED_KIND, f"{AGGREGATED_GROUP}/{version}", is_protobuf)
