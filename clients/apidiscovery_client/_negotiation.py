"""What is asked of a server, and what its Content-Type promises in return.

What was asked for decides nothing: servers before 1.26 ignore the parameters, 1.27 to 1.29 know
only v2beta1, and proxies rewrite either header. Only the Content-Type of the answer counts.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

AGGREGATED_KIND = "APIGroupDiscoveryList"
GROUP = "apidiscovery.k8s.io"
VERSIONS = ("v2", "v2beta1")  # in order of preference

ACCEPT_PLAIN = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"


def _aggregated(media_type: str, version: str) -> str:
    return f"{media_type};g={GROUP};v={version};as={AGGREGATED_KIND}"


# A server takes the first that it can do: the order is that of preference. Without q, for apiserver
# sorts by it (munnerz/goautoneg `ParseAccept`), and equal ones keep their order.
ACCEPT_JSON = ",".join([*(_aggregated(ACCEPT_PLAIN, v) for v in VERSIONS), ACCEPT_PLAIN])
ACCEPT = ",".join(
    [*(_aggregated(kind, v) for v in VERSIONS for kind in (PROTOBUF, ACCEPT_PLAIN)), ACCEPT_PLAIN]
)

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - RFC 9110 5.6.2, not a secret
_RANGE = re.compile(rf"\s*({_TOKEN}/{_TOKEN})\s*")
_PARAMETER = re.compile(rf';\s*({_TOKEN})=(?:({_TOKEN})|"((?:[^"\\]|\\.)*)")\s*')
_TRAILER = re.compile(r";?\s*")


class UnpromisedError(ValueError):
    """The Content-Type is of something that was not asked for."""


class MediaType(NamedTuple):
    """A parsed Content-Type: both the range and the parameter names are in lower case."""

    range: str
    parameters: Mapping[str, str]


class Promise(NamedTuple):
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


def parse_media_type(header: str) -> MediaType | None:
    r"""Return the media type in a Content-Type header; None when it is malformed.

    As Go's mime.ParseMediaType: quoted values are unquoted, a parameter given twice is malformed.

    >>> parse_media_type('Application/JSON; V="v2"')
    MediaType(range='application/json', parameters={'v': 'v2'})
    """
    matched = _RANGE.match(header)
    if matched is None:
        return None
    position = matched.end()
    parameters: dict[str, str] = {}
    while found := _PARAMETER.match(header, position):
        name = found[1].lower()
        if name in parameters:
            return None
        parameters[name] = found[2] or re.sub(r"\\(.)", r"\1", found[3] or "")
        position = found.end()
    if _TRAILER.fullmatch(header, position) is None:
        return None
    return MediaType(matched[1].lower(), parameters)


def promised(content_type: str | None, plain_kind: str) -> Promise:
    """Return what the body of an answer must be, judged by its Content-Type alone.

    Three cases, the first and last as client-go discovery/discovery_client.go `ContentTypeIsGVK`:
    1. JSON or protobuf with the parameters g and as of an aggregated list: that list, in the
       version v.
    2. Another type than these: nothing that was asked for.
    3. Anything else, also no Content-Type or a malformed one: `plain_kind`. In protobuf it was
       not asked for, but servers that ignore the parameters send it.

    Raises:
        UnpromisedError: Case 2, or an aggregated list in a version that was not asked for.
    """
    media_type = parse_media_type(content_type) if content_type else None
    if media_type is None:
        return Promise(plain_kind)
    if media_type.range not in (ACCEPT_PLAIN, PROTOBUF):
        raise UnpromisedError(f"the content type is {content_type!r}, not {ACCEPT_PLAIN!r}")
    is_protobuf = media_type.range == PROTOBUF
    parameters = media_type.parameters
    if (parameters.get("g"), parameters.get("as")) != (GROUP, AGGREGATED_KIND):
        return Promise(plain_kind, is_protobuf=is_protobuf)
    version = parameters.get("v", "")
    if version not in VERSIONS:
        raise UnpromisedError(f"{GROUP} version {version!r} was not asked for: {content_type!r}")
    return Promise(AGGREGATED_KIND, f"{GROUP}/{version}", is_protobuf)
