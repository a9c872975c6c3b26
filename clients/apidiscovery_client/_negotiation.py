"""What is asked of a server, and what its Content-Type promises in return.

What was asked for decides nothing: servers before 1.26 ignore the parameters, 1.27 to 1.29 know
only v2beta1, and proxies rewrite either header. Only the Content-Type of the answer counts.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

AGGREGATED_KIND = "APIGroupDiscoveryList"
GROUP = "apidiscovery.k8s.io"
VERSIONS = ("v2", "v2beta1")  # in order of preference

ACCEPT_PLAIN = "application/json"
ACCEPT = (
    ",".join([f"{ACCEPT_PLAIN};g={GROUP};v={version};as={AGGREGATED_KIND}" for version in VERSIONS])
    + f",{ACCEPT_PLAIN}"
)

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - RFC 9110 5.6.2, not a secret
_RANGE = re.compile(rf"\s*({_TOKEN}/{_TOKEN})\s*")
_PARAMETER = re.compile(rf';\s*({_TOKEN})=(?:({_TOKEN})|"((?:[^"\\]|\\.)*)")\s*')
_TRAILER = re.compile(r";?\s*")


class UnpromisedError(ValueError):
    """The Content-Type is of something that was not asked for."""


@dataclass(frozen=True, slots=True)
class MediaType:
    """A parsed Content-Type: both the range and the parameter names are in lower case."""

    range: str
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Promise:
    """What the body must be.

    Attributes:
        api_version: None where none is promised: unaggregated documents may go without.
    """

    kind: str
    api_version: str | None = None

    @property
    def aggregated(self) -> bool:
        """Whether groups come with their resources."""
        return self.kind == AGGREGATED_KIND


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
    1. JSON with the parameters g and as of an aggregated list: that list, in the version v.
    2. Another type than JSON: nothing that was asked for.
    3. Anything else, also no Content-Type or a malformed one: `plain_kind`.

    Raises:
        UnpromisedError: Case 2, or an aggregated list in a version that was not asked for.
    """
    media_type = parse_media_type(content_type) if content_type else None
    if media_type is None:
        return Promise(plain_kind)
    if media_type.range != ACCEPT_PLAIN:
        raise UnpromisedError(f"the content type is {content_type!r}, not {ACCEPT_PLAIN!r}")
    parameters = media_type.parameters
    if (parameters.get("g"), parameters.get("as")) != (GROUP, AGGREGATED_KIND):
        return Promise(plain_kind)
    version = parameters.get("v", "")
    if version not in VERSIONS:
        raise UnpromisedError(f"{GROUP} version {version!r} was not asked for: {content_type!r}")
    return Promise(AGGREGATED_KIND, f"{GROUP}/{version}")
