"""Writes of StorageVersions: bodies, options and warnings of requests that write.

Sources: k8s.io/apiserver pkg/endpoints/handlers/create.go, update.go, patch.go, delete.go and
rest.go:limitedReadBody, pkg/server/config.go for its bound,
pkg/endpoints/handlers/negotiation/negotiate.go:NegotiateInputSerializerForMediaType,
pkg/endpoints/filters/warning.go; k8s.io/apimachinery pkg/util/net/http.go:NewWarningHeader.
"""

import asyncio
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from apidiscovery_formats.negotiation import (
    JSON,
    MEDIA_TYPES,
    SERIALIZERS,
    Representation,
    Serializer,
)

from apidiscovery_service.encoding import plain
from apidiscovery_service.kube.objects import json_fields, patches
from apidiscovery_service.kube.objects.decoding import Decoded, Undecodable, decode, refusal
from apidiscovery_service.kube.objects.errors import (
    ObjectError,
    bad_request,
    too_large,
    unsupported_media_type,
)
from apidiscovery_service.kube.objects.kinds import DELETE_OPTIONS, Object, ObjectKind
from apidiscovery_service.serving.http.messages import Headers, Receive, Request, Response
from apidiscovery_service.serving.http.objects import parameters
from apidiscovery_service.serving.http.objects.parameters import (
    FieldValidation,
    list_parameters,
    write_options,
)
from apidiscovery_service.serving.http.objects.representation import Shape, response
from apidiscovery_service.serving.http.objects.routes import ObjectRoute
from apidiscovery_service.serving.http.statuses import object_deleted
from apidiscovery_service.storage_versions.object_writes import Objects, Preconditions
from apidiscovery_service.workers import run_sized

MAX_BODY_BYTES = 3 * 1024 * 1024

# As long as the header fields may take to arrive.
_BODY_TIMEOUT_S = 30.0

_PARAMETER = r'[ \t]*;[ \t]*[!#$%&\'*+.^_`|~0-9A-Za-z-]+=(?:"(?:[^"\\]|\\.)*"|[^\s;"]+)'
_MEDIA_TYPE = re.compile(rf"[ \t]*([^\s;,]+)(?:{_PARAMETER})*[ \t]*;?[ \t]*")

_MAX_WARNING_CHARACTERS = 4 * 1024
_MAX_SHORTENED = 256


@dataclass(frozen=True, slots=True)
class Write:
    """One request that writes.

    Attributes:
        objects: The objects.
        request: The request.
        target: The route of its path.
        body: Its body.
        shape: How the object in the answer is shown.
    """

    objects: Objects
    request: Request
    target: ObjectRoute
    body: bytes
    shape: Shape

    async def answer(self) -> Response:
        """Write, and answer with the object as it is now.

        Raises:
            ObjectError: The request fails.
            StoreUnavailable: It is unknown whether it was written.
            StoreRefused: It was not written.
        """
        match self.request.method:
            case "POST":
                return await self._create()
            case "PUT":
                return await self._update()
            case "PATCH":
                return await self._patch()
            case _:
                return await (self._delete() if self.target.name else self._delete_all())

    async def _create(self) -> Response:
        options = write_options(self.request, "CreateOptions")
        read = await self._decoded(options.field_validation)
        created = await self.objects.create(
            read.object, dry_run=options.dry_run, size=len(self.body)
        )
        return self._response(created, HTTPStatus.CREATED, read.problems)

    async def _update(self) -> Response:
        options = write_options(self.request, "UpdateOptions")
        read = await self._decoded(options.field_validation)
        updated = await self.objects.update(
            self.target.name,
            read.object,
            is_status=self.target.status,
            dry_run=options.dry_run,
            size=len(self.body),
        )
        return self._response(updated, problems=read.problems)

    async def _patch(self) -> Response:
        options = write_options(self.request, "PatchOptions")
        strict = options.field_validation is FieldValidation.STRICT
        problems: tuple[str, ...] = ()

        def change(value: Object) -> Object:
            nonlocal problems
            patched = patches.apply(
                self.request.content_type, self.body, value, self.target.kind, strict=strict
            )
            problems = patched.problems
            return patched.object

        patched = await self.objects.patch(
            self.target.name,
            change,
            is_status=self.target.status,
            dry_run=options.dry_run,
            size=len(self.body),
        )
        warns = options.field_validation is FieldValidation.WARN
        return self._response(patched, problems=problems if warns else ())

    async def _delete(self) -> Response:
        options = await self._delete_options()
        deleted = await self.objects.delete(
            self.target.name, _preconditions(options), dry_run=bool(options.get("dryRun"))
        )
        if deleted.details is None:
            waits = options.get("orphanDependents") is False
            return self._response(deleted.object, HTTPStatus.ACCEPTED if waits else HTTPStatus.OK)
        form = self.shape.form
        body = plain.encode(
            object_deleted(deleted.details), Representation(form.serializer, pretty=form.pretty)
        )
        return response(self.target, form, body)

    async def _delete_all(self) -> Response:
        listed = list_parameters(self.request, self.target).as_list()
        options = await self._delete_options()
        deleted = await self.objects.delete_collection(
            listed, _preconditions(options), dry_run=bool(options.get("dryRun"))
        )
        body = self.shape.many(deleted.items, deleted.metadata)
        return response(self.target, self.shape.form, body)

    async def _decoded(self, validation: FieldValidation) -> Decoded:
        """Return the object of the body; raises what `decoded` does."""
        return await run_sized(
            len(self.body), lambda: decoded(self.request, self.body, self.target.kind, validation)
        )

    async def _delete_options(self) -> Object:
        return await run_sized(len(self.body), lambda: delete_options(self.request, self.body))

    def _response(
        self, value: Object, status: HTTPStatus = HTTPStatus.OK, problems: Sequence[str] = ()
    ) -> Response:
        headers = warning_headers(problems)
        return response(self.target, self.shape.form, self.shape.one(value), status, headers)


def check_patch_type(content_type: str) -> None:
    """Check the Content-Type of a patch; server-side apply is not supported.

    Raises:
        ObjectError: It is not supported; 415.
    """
    if content_type.partition(";")[0].strip() not in patches.SUPPORTED:
        raise unsupported_media_type(patches.SUPPORTED)


def _preconditions(options: Object) -> Preconditions:
    given = json_fields.mapping(options, "preconditions")
    return Preconditions(
        json_fields.text(given, "uid") if "uid" in given else None,
        json_fields.text(given, "resourceVersion") if "resourceVersion" in given else None,
    )


# Bodies.


class Disconnected(Exception):
    """The client disconnected before sending the whole body."""


async def read_body(receive: Receive, timeout_s: float = _BODY_TIMEOUT_S) -> bytes:
    """Return the body of a request.

    Args:
        receive: As ASGI has it.
        timeout_s: Time limit for the whole body.

    Raises:
        ObjectError: It is larger than MAX_BODY_BYTES, 413, or takes too long, 408.
        Disconnected: The client has gone.
    """
    try:
        async with asyncio.timeout(timeout_s):
            return await _read(receive)
    except TimeoutError:
        message = f"the body of the request did not arrive within {timeout_s:g} seconds"
        raise ObjectError(HTTPStatus.REQUEST_TIMEOUT, "Timeout", message) from None


async def _read(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            raise too_large(f"limit is {MAX_BODY_BYTES}")
        if not message.get("more_body", False):
            return bytes(body)


def serializer_of(content_type: str) -> Serializer:
    """Return the encoding of a Content-Type; JSON without one.

    Raises:
        ObjectError: It is not supported; 415.
    """
    if not content_type:
        return JSON
    match = _MEDIA_TYPE.fullmatch(content_type)
    media_type = match[1].lower() if match else ""
    for serializer in SERIALIZERS:
        if media_type == serializer.media_type:
            return serializer
    raise unsupported_media_type(MEDIA_TYPES)


def decoded(
    request: Request, body: bytes, kind: ObjectKind, validation: FieldValidation
) -> Decoded:
    """Return the object of a body, with the problems for which the client is warned.

    Raises:
        ObjectError: It is malformed, or has problems under strict validation, 400; or its encoding
            is not supported, 415.
    """
    try:
        read = decode(body, serializer_of(request.content_type), kind)
    except Undecodable as error:
        raise bad_request(str(error)) from None
    if validation is FieldValidation.STRICT and read.problems:
        raise bad_request(refusal(read.problems, kind))
    return read if validation is FieldValidation.WARN else Decoded(read.object)


def delete_options(request: Request, body: bytes) -> Object:
    """Return the DeleteOptions of a body or, without one, of the query.

    Raises:
        ObjectError: They are malformed, 400, their encoding is not supported, 415, or they are
            invalid, 422.
    """
    options: Object
    if body:
        try:
            options = decode(body, serializer_of(request.content_type), DELETE_OPTIONS).object
        except Undecodable as error:
            raise bad_request(error.why) from None
    else:
        options = parameters.delete_options(request)
    parameters.check_delete_options(options)
    return options


# Warnings.


def warning_headers(texts: Iterable[str]) -> Headers:
    """Return a Warning header field for each distinct text.

    If the texts exceed 4096 characters in total, they are shortened to 256 each, until 4096 are
    reached.
    """
    distinct = [text for text in dict.fromkeys(texts) if text]
    if sum(map(len, distinct)) > _MAX_WARNING_CHARACTERS:
        distinct = list(_shortened(distinct))
    return [
        (b"warning", f"299 - {_quoted(text)}".encode())
        for text in distinct
        if not any(map(_is_control, text))
    ]


def _shortened(texts: Iterable[str]) -> Iterable[str]:
    written = 0
    for text in texts:
        if written >= _MAX_WARNING_CHARACTERS:
            return
        yield text[:_MAX_SHORTENED]
        written += min(len(text), _MAX_SHORTENED)


def _quoted(text: str) -> str:
    return '"{}"'.format(text.replace("\\", "\\\\").replace('"', '\\"'))


def _is_control(character: str) -> bool:
    code = ord(character)
    return code < ord(" ") or 0x7F <= code < 0xA0  # noqa: PLR2004 - DEL and C1, as by unicode.IsControl
