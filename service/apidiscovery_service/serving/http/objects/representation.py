"""How objects, lists and watches are represented: encodings, and conversions such as Table.

Sources: k8s.io/apiserver pkg/endpoints/handlers/negotiation/negotiate.go:NegotiateMediaTypeOptions,
pkg/endpoints/handlers/rest.go:RequestScope.AllowsMediaTypeTransform and
pkg/endpoints/handlers/response.go:transformResponseObject.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

from apidiscovery_formats.negotiation import (
    JSON,
    MEDIA_TYPES,
    PROTOBUF,
    SERIALIZERS,
    Clause,
    Serializer,
    matches,
    parse_accept,
)

from apidiscovery_service.encoding import compression
from apidiscovery_service.encoding.compression import Coding
from apidiscovery_service.kube.objects import json_fields
from apidiscovery_service.kube.objects.encoding import ListMeta, encode, encode_list, encode_value
from apidiscovery_service.kube.objects.errors import ObjectError, not_acceptable
from apidiscovery_service.kube.objects.kinds import (
    LEASE,
    PARTIAL_OBJECT_METADATA,
    PARTIAL_OBJECT_METADATA_V1BETA1,
    STORAGE_VERSION,
    Object,
    ObjectKind,
)
from apidiscovery_service.kube.objects.metadata import partial
from apidiscovery_service.kube.objects.tables import IncludeObject, table
from apidiscovery_service.serving.http.messages import Headers, Request, Response, coding_headers
from apidiscovery_service.serving.http.objects.parameters import include_object
from apidiscovery_service.serving.http.objects.routes import ObjectRoute
from apidiscovery_service.serving.http.statuses import NOT_CACHED, is_pretty

TABLE: Final = "Table"
PARTIAL: Final = "PartialObjectMetadata"
PARTIAL_LIST: Final = "PartialObjectMetadataList"

_META_GROUP = "meta.k8s.io"
_META_VERSIONS = ("v1", "v1beta1")
# The value of the parameter `sv` (server version).
_SERVER_VERSION = "v1"

# Source: k8s.io/apiserver pkg/endpoints/handlers/responsewriters/writers.go,
# defaultGzipThresholdBytes.
_MIN_COMPRESSED_BYTES = 128 * 1024

_PARTIALS = {
    kind.version: kind for kind in (PARTIAL_OBJECT_METADATA, PARTIAL_OBJECT_METADATA_V1BETA1)
}

# Go packages of the internal types, which two error messages of Kubernetes name.
_GO_PACKAGES = {STORAGE_VERSION.kind: "apiserverinternal", LEASE.kind: "coordination"}

STREAM_MEDIA_TYPES = tuple(
    f"{serializer.media_type};stream=watch" for serializer in SERIALIZERS if serializer.streams
)


@dataclass(frozen=True, slots=True)
class Target:
    """The type that objects are converted to.

    Attributes:
        kind: `Table`, `PartialObjectMetadata` or `PartialObjectMetadataList`.
        version: `v1` or `v1beta1`, of the group meta.k8s.io.
    """

    kind: str
    version: str


@dataclass(frozen=True, slots=True)
class Form:
    """The negotiated form of an answer.

    Attributes:
        serializer: The encoding.
        pretty: Whether JSON is indented.
        target: The type that objects are converted to; None for no conversion.
    """

    serializer: Serializer
    pretty: bool = False
    target: Target | None = None

    @property
    def media_type(self) -> str:
        """The Content-Type of a document, which does not name the conversion."""
        return self.serializer.media_type

    @property
    def stream_media_type(self) -> str:
        """The Content-Type of a watch."""
        return self.media_type if self.serializer is JSON else f"{self.media_type};stream=watch"

    @property
    def label(self) -> str:
        """The form as a label in metrics."""
        return f"{self.media_type};as={self.target.kind}" if self.target else self.media_type


def negotiate(request: Request) -> Form:
    """Return the form of the answer to a request.

    Raises:
        ObjectError: Accept allows none; 406.
    """
    if not request.accept:
        return Form(JSON, is_pretty(request))
    clauses = map(_without_version, parse_accept(request.accept))
    for clause, serializer in matches(clauses):
        try:
            target = _target(clause, serializer)
        except LookupError:
            continue
        asked = clause.parameters.get("pretty") == "1"
        pretty = serializer is JSON and (asked or is_pretty(request))
        return Form(serializer, pretty, target)
    raise not_acceptable(MEDIA_TYPES)


def require_stream(form: Form) -> Form:
    """Return the form of a watch, which is never indented.

    Raises:
        ObjectError: It cannot be a stream; 406.
    """
    if not form.serializer.streams:
        raise not_acceptable(STREAM_MEDIA_TYPES)
    return replace(form, pretty=False)


def _without_version(clause: Clause) -> Clause:
    """Return a clause without the parameter `sv` if it names the version of this server."""
    if clause.parameters.get("sv") != _SERVER_VERSION:
        return clause
    others = {name: text for name, text in clause.parameters.items() if name != "sv"}
    return replace(clause, parameters=others)


def _target(clause: Clause, serializer: Serializer) -> Target | None:
    """Return the conversion that a clause asks for, None for none.

    Raises:
        LookupError: There is none of that name, or not in this encoding.
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


@dataclass(frozen=True, slots=True)
class Shape:
    """How objects are represented in the answer to one request.

    Attributes:
        kind: Their kind.
        form: The negotiated form.
        include: What a Table includes of each object.
    """

    kind: ObjectKind
    form: Form
    include: IncludeObject = IncludeObject.METADATA

    def one(self, value: Object, *, headers: bool = True) -> bytes:
        """Return the body for one object.

        Args:
            value: The object.
            headers: Whether a Table has its column definitions.

        Raises:
            ObjectError: It cannot be converted; 406.
        """
        form, target = self.form, self.form.target
        if target is None:
            return encode(value, self.kind, form.serializer, pretty=form.pretty)
        if target.kind == TABLE:
            revision = json_fields.text(json_fields.mapping(value, "metadata"), "resourceVersion")
            return self._table([value], ListMeta(revision), headers=headers)
        if target.kind == PARTIAL_LIST:
            raise self._not_convertible("not a list", "")
        kind = _PARTIALS[target.version]
        return encode(partial(value, kind), kind, form.serializer, pretty=form.pretty)

    def many(self, items: Sequence[Object], metadata: ListMeta) -> bytes:
        """Return the body for a list.

        Raises:
            ObjectError: It cannot be converted; 406.
        """
        form, target = self.form, self.form.target
        if target is None:
            return encode_list(self.kind, items, metadata, form.serializer, pretty=form.pretty)
        if target.kind == TABLE:
            return self._table(items, metadata)
        if target.kind == PARTIAL:
            raise self._not_convertible("a list", "List")
        kind = _PARTIALS[target.version]
        made = [partial(item, kind) for item in items]
        return encode_list(kind, made, metadata, form.serializer, pretty=form.pretty)

    def _table(self, items: Sequence[Object], metadata: ListMeta, *, headers: bool = True) -> bytes:
        version = self.form.target.version if self.form.target else "v1"
        made = table(
            self.kind,
            items,
            metadata,
            now=datetime.now(UTC),
            include=self.include,
            version=version,
            headers=headers,
        )
        return encode_value(made, self.form.serializer, pretty=self.form.pretty)

    def _not_convertible(self, seen: str, suffix: str) -> ObjectError:
        asked = self.form.target.kind if self.form.target else ""
        go_type = f"*{_GO_PACKAGES[self.kind.kind]}.{self.kind.kind}{suffix}"
        message = f"you requested {asked}, but the requested object is {seen} ({go_type})"
        return ObjectError(HTTPStatus.NOT_ACCEPTABLE, "NotAcceptable", message)


def shape_of(request: Request, kind: ObjectKind, form: Form) -> Shape:
    """Return how objects of a kind are represented in the answer to a request.

    Raises:
        ObjectError: Its parameter `includeObject` is invalid; 400.
    """
    if form.target is None or form.target.kind != TABLE:
        return Shape(kind, form)
    return Shape(kind, form, include_object(request))


def response(
    target: ObjectRoute,
    form: Form,
    body: bytes,
    status: HTTPStatus = HTTPStatus.OK,
    warnings: Sequence[tuple[bytes, bytes]] = (),
) -> Response:
    """Answer with a body."""
    headers: Headers = [NOT_CACHED, (b"content-type", form.media_type.encode()), *warnings]
    return Response(status, headers, body, target.endpoint, form.label)


async def compressed(plain: Response, coding: Coding) -> Response:
    """Return an answer, compressed in a thread if its body has more than 128 KiB."""
    if coding == "identity" or not isinstance(plain.body, bytes):
        return plain
    if len(plain.body) <= _MIN_COMPRESSED_BYTES:
        return plain
    body = await asyncio.to_thread(compression.compress, plain.body, coding)
    headers = [*plain.headers, *coding_headers(coding)]
    return replace(plain, headers=headers, body=body, coding=coding)
