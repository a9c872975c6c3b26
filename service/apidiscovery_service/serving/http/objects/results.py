"""Objects and lists as answers, made into what was asked for.

Source: k8s.io/apiserver pkg/endpoints/handlers/response.go:transformResponseObject.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus

from apidiscovery_service.encoding import compression
from apidiscovery_service.encoding.compression import Coding
from apidiscovery_service.kube.objects import reading
from apidiscovery_service.kube.objects.encoding import ListMeta, encode, encode_list, encode_value
from apidiscovery_service.kube.objects.errors import ObjectError
from apidiscovery_service.kube.objects.kinds import (
    LEASE,
    PARTIAL_OBJECT_METADATA,
    PARTIAL_OBJECT_METADATA_V1BETA1,
    STORAGE_VERSION,
    Kind,
    Object,
)
from apidiscovery_service.kube.objects.metadata import partial
from apidiscovery_service.kube.objects.tables import IncludeObject, table
from apidiscovery_service.serving.http.messages import Headers, Request, Response
from apidiscovery_service.serving.http.objects.negotiation import PARTIAL, PARTIAL_LIST, TABLE, Form
from apidiscovery_service.serving.http.objects.parameters import include_object
from apidiscovery_service.serving.http.objects.routes import ObjectRoute
from apidiscovery_service.serving.http.statuses import NOT_CACHED

# Source: k8s.io/apiserver pkg/endpoints/handlers/responsewriters/writers.go,
# defaultGzipThresholdBytes.
_MIN_COMPRESSED_BYTES = 128 * 1024

_PARTIALS = {
    kind.version: kind for kind in (PARTIAL_OBJECT_METADATA, PARTIAL_OBJECT_METADATA_V1BETA1)
}

# Where Kubernetes' own Go types of the kinds are, which two of its messages tell.
_GO_PACKAGES = {STORAGE_VERSION.kind: "apiserverinternal", LEASE.kind: "coordination"}


@dataclass(frozen=True, slots=True)
class Shape:
    """How objects are shown to one request.

    Attributes:
        kind: What they are.
        form: The form that was negotiated.
        include: What of each object stands in a Table.
    """

    kind: Kind
    form: Form
    include: IncludeObject = IncludeObject.METADATA

    def one(self, value: Object, *, headers: bool = True) -> bytes:
        """Return the body that is one object.

        Args:
            value: The object.
            headers: Whether a Table says what its columns are.

        Raises:
            ObjectError: It cannot be made into what was asked for; 406.
        """
        form, target = self.form, self.form.target
        if target is None:
            return encode(value, self.kind, form.serializer, pretty=form.pretty)
        if target.kind == TABLE:
            revision = reading.text(reading.mapping(value, "metadata"), "resourceVersion")
            return self._table([value], ListMeta(revision), headers=headers)
        if target.kind == PARTIAL_LIST:
            raise self._not_convertible("not a list", "")
        kind = _PARTIALS[target.version]
        return encode(partial(value, kind), kind, form.serializer, pretty=form.pretty)

    def many(self, items: Sequence[Object], metadata: ListMeta) -> bytes:
        """Return the body that is a list.

        Raises:
            ObjectError: It cannot be made into what was asked for; 406.
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


def shape_of(request: Request, kind: Kind, form: Form) -> Shape:
    """Return how a request wants objects of a kind to be shown.

    Raises:
        ObjectError: It says wrongly what a Table is to have; 400.
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
    """Return an answer with a body of more than 128 KiB compressed, which is done off the loop."""
    if coding == "identity" or not isinstance(plain.body, bytes):
        return plain
    if len(plain.body) <= _MIN_COMPRESSED_BYTES:
        return plain
    body = await asyncio.to_thread(compression.compress, plain.body, coding)
    more = [(b"content-encoding", coding.encode()), (b"vary", b"Accept-Encoding")]
    return replace(plain, headers=[*plain.headers, *more], body=body, coding=coding)
