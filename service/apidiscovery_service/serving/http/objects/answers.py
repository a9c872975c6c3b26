"""Answers to requests about objects."""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TypeAlias

from apidiscovery_service.encoding.compression import Coding
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.kube.objects import errors, reading
from apidiscovery_service.kube.objects.errors import Details, ObjectError, bad_request
from apidiscovery_service.kube.objects.kinds import LEASE, STORAGE_VERSION
from apidiscovery_service.serving.http.messages import Request, Response
from apidiscovery_service.serving.http.objects import writes
from apidiscovery_service.serving.http.objects.negotiation import negotiate, require_stream
from apidiscovery_service.serving.http.objects.parameters import Query, list_parameters
from apidiscovery_service.serving.http.objects.results import Shape, compressed, response, shape_of
from apidiscovery_service.serving.http.objects.routes import ObjectRoute
from apidiscovery_service.serving.http.objects.watching import WatchStream, watch
from apidiscovery_service.storage_versions.collection import Collection
from apidiscovery_service.storage_versions.object_reads import ObjectReads
from apidiscovery_service.storage_versions.objects import Objects
from apidiscovery_service.store import StoreUnavailable, told_to_callers

ReadBody: TypeAlias = Callable[[], Awaitable[bytes]]


class ObjectAnswers:
    """Answers requests about StorageVersions and leases.

    Args:
        objects: The StorageVersions.
        leases: The leases, which are read only.
    """

    def __init__(self, objects: Collection, leases: Collection) -> None:
        self._objects = Objects(objects)
        self._reads = {STORAGE_VERSION.kind: self._objects, LEASE.kind: ObjectReads(leases)}
        self._collections = {STORAGE_VERSION.kind: objects, LEASE.kind: leases}
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """End all watches, those to come too: the server stops."""
        self._stopping.set()

    async def stopped(self) -> None:
        """Return when `stop` has been called."""
        await self._stopping.wait()

    async def answer(
        self, request: Request, target: ObjectRoute, read_body: ReadBody, coding: Coding
    ) -> Response | WatchStream:
        """Answer a request whose method the path has.

        Args:
            request: The request.
            target: What its path names.
            read_body: Returns its body; called once, and only when there may be one.
            coding: What the client would take of a large body.

        Raises:
            ObjectError: What it asks for cannot be.
        """
        try:
            if request.method != "GET":
                return await self._write(request, target, read_body)
            shape = shape_of(request, target.kind, negotiate(request))
            if target.name and not target.watches:
                return await self._get(request, target, shape)
            return await self._list(request, target, shape, coding)
        except ObjectError:
            raise
        except StoreUnavailable as error:
            raise unavailable(error) from None
        except DiscoveryError as error:
            raise errors.internal_error(told_to_callers(error)) from None

    async def _get(self, request: Request, target: ObjectRoute, shape: Shape) -> Response:
        query = Query(request)
        if query.flag("export"):
            raise bad_request(
                "the export parameter, deprecated since v1.14, is no longer supported"
            )
        reads = self._reads[target.kind.kind]
        value = await reads.get(target.name, query.text("resourceVersion"))
        namespace = reading.text(reading.mapping(value, "metadata"), "namespace")
        if namespace != target.namespace:
            raise errors.not_found(target.kind, target.name)
        return response(target, shape.form, shape.one(value))

    async def _list(
        self, request: Request, target: ObjectRoute, shape: Shape, coding: Coding
    ) -> Response | WatchStream:
        parameters = list_parameters(request, target)
        if parameters.watch or target.watches:
            streamed = Shape(shape.kind, require_stream(shape.form), shape.include)
            collection = self._collections[target.kind.kind]
            return await watch(collection, target, parameters, streamed)
        listed = await self._reads[target.kind.kind].list(parameters.as_list())
        body = shape.many(listed.items, listed.metadata)
        return await compressed(response(target, shape.form, body), coding)

    async def _write(self, request: Request, target: ObjectRoute, read_body: ReadBody) -> Response:
        if request.method == "PATCH":
            writes.check_patch_type(request.content_type)
        shape = shape_of(request, target.kind, negotiate(request))
        body = await read_body()
        asked = writes.Write(request, target, body, shape)
        return await writes.write(self._objects, asked)


def unavailable(error: StoreUnavailable) -> ObjectError:
    """Return what is answered when the store is away; worth another try."""
    return ObjectError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "ServiceUnavailable",
        error.told,
        Details(retry_after_s=1),
    )
