"""Opens a body by its Content-Type alone, and reads it once it is what that promises."""

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from apidiscovery_client._fields import Fields, MisshapenError, as_fields, read_json, text
from apidiscovery_client._negotiation import Promise, UnexpectedTypeError, promised
from apidiscovery_client._reading import aggregated
from apidiscovery_client._reading.parsed import ParsedDocument, UnreadableError
from apidiscovery_client.model import DiscoveryPath, GroupVersion, Resource

T = TypeVar("T")

PLAIN_KINDS: dict[DiscoveryPath, str] = {"/api": "APIVersions", "/apis": "APIGroupList"}
RESOURCE_LIST = "APIResourceList"


def read_document(
    path: DiscoveryPath, content_type: str | None, body: bytes, now: datetime
) -> ParsedDocument:
    """Return what the answer of `/api` or `/apis` tells.

    A version that the document calls stale is `Stale` since `now` with resources, and `Unknown`
    without; so is each version of an unaggregated document.

    Raises:
        UnreadableError: It is not what its Content-Type promises.
    """
    promise = _promise(content_type, PLAIN_KINDS[path])
    if promise.is_protobuf:
        # Imported here, for most answers are JSON and this takes longer than reading one.
        from apidiscovery_client._reading import protobuf  # noqa: PLC0415

        return protobuf.read_document(promise, body, now)
    document = _open(content_type, promise, body)
    if promise.aggregated:
        return ParsedDocument(
            _read(lambda: aggregated.read_groups(document, now)), is_aggregated=True
        )
    from apidiscovery_client._reading import unaggregated  # noqa: PLC0415 - for old servers alone

    read = unaggregated.read_core if path == "/api" else unaggregated.read_groups
    return ParsedDocument(_read(lambda: read(document, now)), is_aggregated=False)


def read_resources(gv: GroupVersion, content_type: str | None, body: bytes) -> tuple[Resource, ...]:
    """Return what the answer for one group-version tells, subresources below their resources.

    The rules are those of apiserver endpoints/installer.go `ConvertGroupVersionIntoToDiscovery`.

    Raises:
        UnreadableError: It is not what its Content-Type promises, or of another group-version.
    """
    promise = _promise(content_type, RESOURCE_LIST)
    if promise.is_protobuf:
        from apidiscovery_client._reading import protobuf  # noqa: PLC0415 - as above

        return protobuf.read_resources(gv, promise, body)
    document = _open(content_type, promise, body)
    if promise.aggregated:
        raise UnreadableError(f"the content type {content_type!r} is not of one group-version")
    from apidiscovery_client._reading import unaggregated  # noqa: PLC0415 - as above

    return _read(lambda: unaggregated.read_resources(gv, document))


def _promise(content_type: str | None, plain_kind: str) -> Promise:
    try:
        return promised(content_type, plain_kind)
    except UnexpectedTypeError as error:
        raise UnreadableError(str(error)) from None


def _open(content_type: str | None, promise: Promise, body: bytes) -> Fields:
    """Return the document once its kind is known to be the promised one.

    Decoding into a type whose fields all have defaults would take any JSON object, such as a
    `Status` or the document of an older server, for an empty discovery.
    """
    try:
        document = as_fields(read_json(body))
        kind, api_version = text(document, "kind"), text(document, "apiVersion")
    except RecursionError:
        raise UnreadableError("the body is nested too deeply") from None
    except MisshapenError as error:
        raise UnreadableError(str(error)) from None
    except ValueError as error:
        raise UnreadableError(f"the body is not JSON: {error}") from None
    if broken := promise.broken_by(content_type, kind, api_version):
        raise UnreadableError(broken)
    return document


def _read(read: Callable[[], T]) -> T:
    try:
        return read()
    except MisshapenError as error:
        raise UnreadableError(str(error)) from None
