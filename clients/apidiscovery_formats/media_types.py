"""Media types of discovery documents, and the Content-Type headers that name them."""

import re
from collections.abc import Mapping
from typing import NamedTuple

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"

AGGREGATED_GROUP = "apidiscovery.k8s.io"
AGGREGATED_KIND = "APIGroupDiscoveryList"

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - RFC 9110 5.6.2, not a secret
_RANGE = re.compile(rf"\s*({_TOKEN}/{_TOKEN})\s*")
_PARAMETER = re.compile(rf';\s*({_TOKEN})=(?:({_TOKEN})|"((?:[^"\\]|\\.)*)")\s*')
_TRAILER = re.compile(r";?\s*")


class MediaType(NamedTuple):
    """A parsed Content-Type: both the range and the parameter names are in lower case."""

    range: str
    parameters: Mapping[str, str]

    @property
    def aggregated_version(self) -> str | None:
        """The version of the aggregated document that it names, "" for a missing one; else None.

        Order, spacing and other parameters do not matter. Source: k8s.io/client-go
        discovery/discovery_client.go `ContentTypeIsGVK`.
        """
        found = self.parameters
        if (found.get("g"), found.get("as")) != (AGGREGATED_GROUP, AGGREGATED_KIND):
            return None
        return found.get("v", "")


def aggregated(media_type: str, version: str) -> str:
    """Return the Content-Type of an aggregated document: parameters in the order g, v, as.

    It has no charset: client-go up to 0.27.1 compares it as a string.
    """
    return f"{media_type};g={AGGREGATED_GROUP};v={version};as={AGGREGATED_KIND}"


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
