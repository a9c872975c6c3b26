"""The one OpenAPI v2 document of an old upstream, made into documents of group-versions."""

from typing import cast

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.openapi.v2.split import split
from apidiscovery_service.sources.upstreams.body import Body, parsed
from apidiscovery_service.sources.upstreams.failure import Reason, UpstreamFailed
from apidiscovery_service.sources.upstreams.openapi_check import Bounds

PATH = "/openapi/v2"


def split_document(body: Body) -> dict[str, bytes]:
    """Return the OpenAPI v3 documents of what a v2 document has, by key such as `apis/apps/v1`.

    Raises:
        UpstreamFailed: It is no OpenAPI v2 document, or exceeds a bound.
    """
    document = parsed(body)
    if not isinstance(document, dict):
        raise UpstreamFailed(Reason.MALFORMED, "want an object, got another value")
    fields = cast("dict[str, JSONValue]", document)
    Bounds().look(fields)
    if fields.get("swagger") != "2.0":
        raise UpstreamFailed(Reason.MALFORMED, "swagger: want '2.0', got another or nothing")
    try:
        return split(fields)
    except DiscoveryError as error:
        raise UpstreamFailed(Reason.MALFORMED, str(error)) from error
