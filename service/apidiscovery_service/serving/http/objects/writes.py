"""Writes of StorageVersions: what a request says, handed to the rules of the objects.

Sources: k8s.io/apiserver pkg/endpoints/handlers/create.go, update.go, patch.go, delete.go.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

from apidiscovery_formats.negotiation import Representation

from apidiscovery_service.encoding import plain
from apidiscovery_service.kube.objects import patches, reading
from apidiscovery_service.kube.objects.decoding import Decoded
from apidiscovery_service.kube.objects.errors import unsupported_media_type
from apidiscovery_service.kube.objects.kinds import Object
from apidiscovery_service.serving.http.messages import Request, Response
from apidiscovery_service.serving.http.objects import bodies
from apidiscovery_service.serving.http.objects.parameters import (
    FieldValidation,
    list_parameters,
    write_options,
)
from apidiscovery_service.serving.http.objects.results import Shape, response
from apidiscovery_service.serving.http.objects.routes import ObjectRoute
from apidiscovery_service.serving.http.objects.statuses import success
from apidiscovery_service.serving.http.objects.warnings import warning_headers
from apidiscovery_service.storage_versions.objects import Objects, Preconditions
from apidiscovery_service.threads import run_sized


@dataclass(frozen=True, slots=True)
class Write:
    """One request that writes.

    Attributes:
        request: The request.
        target: What it concerns.
        body: Its body.
        shape: How what it returns is shown.
    """

    request: Request
    target: ObjectRoute
    body: bytes
    shape: Shape

    async def decoded(self, validation: FieldValidation) -> Decoded:
        """Return the object of the body; raises what `bodies.decoded` does."""
        request, kind = self.request, self.target.kind
        return await run_sized(
            len(self.body), lambda: bodies.decoded(request, self.body, kind, validation)
        )

    def answer(
        self,
        value: Object,
        status: HTTPStatus = HTTPStatus.OK,
        problems: Sequence[str] = (),
    ) -> Response:
        """Answer with the object as it is now."""
        body = self.shape.one(value)
        headers = warning_headers(problems)
        return response(self.target, self.shape.form, body, status, headers)


async def write(objects: Objects, asked: Write) -> Response:
    """Do what a request says.

    Raises:
        ObjectError: It cannot be done.
        StoreUnavailable: Whether it was done is not known.
        StoreRefused: It was not done.
    """
    match asked.request.method:
        case "POST":
            return await _create(objects, asked)
        case "PUT":
            return await _update(objects, asked)
        case "PATCH":
            return await _patch(objects, asked)
        case _:
            return await (_delete if asked.target.name else _delete_all)(objects, asked)


async def _create(objects: Objects, asked: Write) -> Response:
    options = write_options(asked.request, "CreateOptions")
    read = await asked.decoded(options.field_validation)
    size = len(asked.body)
    created = await objects.create(read.object, dry_run=options.dry_run, size=size)
    return asked.answer(created, HTTPStatus.CREATED, read.problems)


async def _update(objects: Objects, asked: Write) -> Response:
    options = write_options(asked.request, "UpdateOptions")
    read = await asked.decoded(options.field_validation)
    update = objects.update_status if asked.target.status else objects.update
    updated = await update(
        asked.target.name, read.object, dry_run=options.dry_run, size=len(asked.body)
    )
    return asked.answer(updated, problems=read.problems)


async def _patch(objects: Objects, asked: Write) -> Response:
    options = write_options(asked.request, "PatchOptions")
    strict = options.field_validation is FieldValidation.STRICT
    problems: tuple[str, ...] = ()

    def change(value: Object) -> Object:
        nonlocal problems
        patched = patches.apply(
            asked.request.content_type, asked.body, value, asked.target.kind, strict=strict
        )
        problems = patched.problems
        return patched.object

    patch = objects.patch_status if asked.target.status else objects.patch
    patched = await patch(asked.target.name, change, dry_run=options.dry_run, size=len(asked.body))
    warned = options.field_validation is FieldValidation.WARN
    return asked.answer(patched, problems=problems if warned else ())


def check_patch_type(content_type: str) -> None:
    """Check what Content-Type says of a patch; server-side apply is not served.

    Raises:
        ObjectError: It is no patch that is; 415.
    """
    if content_type.partition(";")[0].strip() not in patches.SUPPORTED:
        raise unsupported_media_type(patches.SUPPORTED)


async def _delete(objects: Objects, asked: Write) -> Response:
    options = await run_sized(
        len(asked.body), lambda: bodies.delete_options(asked.request, asked.body)
    )
    deleted = await objects.delete(
        asked.target.name, _preconditions(options), dry_run=bool(options.get("dryRun"))
    )
    if deleted.details is None:
        waits = options.get("orphanDependents") is False
        return asked.answer(deleted.object, HTTPStatus.ACCEPTED if waits else HTTPStatus.OK)
    form = asked.shape.form
    body = plain.encode(
        success(deleted.details), Representation(form.serializer, pretty=form.pretty)
    )
    return response(asked.target, form, body)


async def _delete_all(objects: Objects, asked: Write) -> Response:
    listed = list_parameters(asked.request, asked.target).as_list()
    options = await run_sized(
        len(asked.body), lambda: bodies.delete_options(asked.request, asked.body)
    )
    deleted = await objects.delete_collection(
        listed, _preconditions(options), dry_run=bool(options.get("dryRun"))
    )
    body = asked.shape.many(deleted.items, deleted.metadata)
    return response(asked.target, asked.shape.form, body)


def _preconditions(options: Object) -> Preconditions:
    said = reading.mapping(options, "preconditions")
    return Preconditions(
        reading.text(said, "uid") if "uid" in said else None,
        reading.text(said, "resourceVersion") if "resourceVersion" in said else None,
    )
