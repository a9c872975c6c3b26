"""In which form an object, a list or a watch is answered: its encoding, and what it is made into.

Sources: k8s.io/apiserver pkg/endpoints/handlers/negotiation/negotiate.go:NegotiateMediaTypeOptions
and pkg/endpoints/handlers/rest.go:RequestScope.AllowsMediaTypeTransform.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from apidiscovery_formats.negotiation import (
    JSON,
    MEDIA_TYPES,
    PROTOBUF,
    SERIALIZERS,
    Clause,
    Serializer,
    parse_accept,
)

from apidiscovery_service.kube.objects.errors import not_acceptable
from apidiscovery_service.serving.http.messages import Request
from apidiscovery_service.serving.http.statuses import is_pretty

TABLE: Final = "Table"
PARTIAL: Final = "PartialObjectMetadata"
PARTIAL_LIST: Final = "PartialObjectMetadataList"

_META_GROUP = "meta.k8s.io"
_META_VERSIONS = ("v1", "v1beta1")
# The version of `meta` that a server's version (`sv`) may name.
_SERVER_VERSION = "v1"

STREAM_MEDIA_TYPES = tuple(
    f"{serializer.media_type};stream=watch" for serializer in SERIALIZERS if serializer.streams
)


@dataclass(frozen=True, slots=True)
class Target:
    """What an object is made into instead of being sent as it is.

    Attributes:
        kind: `Table`, `PartialObjectMetadata` or `PartialObjectMetadataList`.
        version: `v1` or `v1beta1`, of the group meta.k8s.io.
    """

    kind: str
    version: str


@dataclass(frozen=True, slots=True)
class Form:
    """How an answer is written.

    Attributes:
        serializer: The encoding.
        pretty: Whether JSON is indented.
        target: What the object is made into; None for the object itself.
    """

    serializer: Serializer
    pretty: bool = False
    target: Target | None = None

    @property
    def media_type(self) -> str:
        """The value of Content-Type of a document; what it was made into is not said."""
        return self.serializer.media_type

    @property
    def stream_media_type(self) -> str:
        """The value of Content-Type of a watch."""
        return self.media_type if self.serializer is JSON else f"{self.media_type};stream=watch"

    @property
    def label(self) -> str:
        """The form as metrics tell it apart."""
        return f"{self.media_type};as={self.target.kind}" if self.target else self.media_type


def negotiate(request: Request) -> Form:
    """Return the form of the answer to a request.

    Raises:
        ObjectError: Accept admits none; 406.
    """
    if not request.accept:
        return Form(JSON, is_pretty(request))
    for clause, serializer in _pairs(request.accept):
        try:
            target = _target(clause, serializer)
        except LookupError:
            continue
        asked = clause.parameters.get("pretty") == "1"
        pretty = serializer is JSON and (asked or is_pretty(request))
        return Form(serializer, pretty, target)
    raise not_acceptable(MEDIA_TYPES)


def require_stream(form: Form) -> Form:
    """Return a form that a watch can have: it is never indented.

    Raises:
        ObjectError: It cannot be a stream; 406.
    """
    if not form.serializer.streams:
        raise not_acceptable(STREAM_MEDIA_TYPES)
    return replace(form, pretty=False)


def _pairs(accept: str) -> Iterator[tuple[Clause, Serializer]]:
    for clause in parse_accept(accept):
        if clause.parameters.get("sv") == _SERVER_VERSION:
            others = {name: text for name, text in clause.parameters.items() if name != "sv"}
            clause = replace(clause, parameters=others)  # noqa: PLW2901 - the rest of it counts
        for serializer in SERIALIZERS:
            if clause.matches(serializer):
                yield clause, serializer


def _target(clause: Clause, serializer: Serializer) -> Target | None:
    """Return what a clause wants an object made into, None for nothing.

    Raises:
        LookupError: There is no such thing, or not in this encoding.
    """
    if not clause.converts:
        return None
    target = Target(clause.parameters.get("as", ""), clause.parameters.get("v", ""))
    if clause.parameters.get("g") != _META_GROUP or target.version not in _META_VERSIONS:
        raise LookupError(target)
    if target.kind == TABLE and serializer is not PROTOBUF:
        return target
    if target.kind in (PARTIAL, PARTIAL_LIST):
        return target
    raise LookupError(target)
