"""The one OpenAPI v2 document of an old upstream, made into documents of group-versions."""

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.go_json import JSONValue
from apidiscovery_service.openapi.stepwise_json import Reader, dismantle
from apidiscovery_service.openapi.v2.split import split
from apidiscovery_service.sources.upstreams.bounded_json import Body
from apidiscovery_service.sources.upstreams.failure import Reason, UpstreamFailed
from apidiscovery_service.sources.upstreams.openapi_check import Bounds, reading

PATH = "/openapi/v2"

# What is large in a document, and read entry by entry.
_SECTIONS = frozenset({"definitions", "parameters", "paths", "responses", "securityDefinitions"})


def split_document(body: Body, within_s: float) -> dict[str, bytes]:
    """Return the OpenAPI v3 documents of what a v2 document has, by key such as `apis/apps/v1`.

    Raises:
        UpstreamFailed: It is no OpenAPI v2 document, or exceeds a bound.
    """
    with reading(body, within_s) as reader:
        document = _document(reader)
    if document.get("swagger") != "2.0":
        raise UpstreamFailed(Reason.MALFORMED, "swagger: want '2.0', got another or nothing")
    try:
        return split(document)
    except DiscoveryError as error:
        raise UpstreamFailed(Reason.MALFORMED, str(error)) from error
    finally:
        dismantle(document)


def _document(reader: Reader) -> dict[str, JSONValue]:
    bounds = Bounds()

    def value(depth: int) -> JSONValue:
        found = reader.value()
        bounds.look(found, depth)
        return found

    document: dict[str, JSONValue] = {}
    for name in reader.fields():
        is_large = name in _SECTIONS
        document[name] = {key: value(2) for key in reader.fields()} if is_large else value(1)
    reader.end()
    return document
