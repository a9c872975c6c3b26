"""Security schemes of OpenAPI v2 and v3."""

from collections.abc import Iterable
from typing import Final

from apidiscovery_formats.openapi.pointers import Place

from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.openapi.v2 import key_order
from apidiscovery_service.openapi.v2.fields import (
    Object,
    as_object,
    as_text,
    extensions,
    invalid,
)

_V3_FLOWS: Final = {
    "implicit": "implicit",
    "password": "password",
    "application": "clientCredentials",
    "accessCode": "authorizationCode",
}

# v2 has one flow for each scheme: the first of these.
_V2_FLOWS: Final = {
    "implicit": "implicit",
    "password": "password",
    "clientCredentials": "application",
    "authorizationCode": "accessCode",
}


def upgraded(source: Object, at: Place) -> Object:
    """Return a scheme of v2 as v3."""
    kind = as_text(source.get("type"), (at, "type"))
    result: Object = {"type": kind}
    for name in ("description", "name", "in"):
        if name in source:
            result[name] = as_text(source[name], (at, name))
    if kind == "basic":
        result |= {"type": "http", "scheme": "basic"}
    elif kind == "oauth2":
        result["flows"] = _flows_v3(source, at)
    elif kind != "apiKey":
        raise invalid((at, "type"), f"{kind!r} is not a kind of security")
    return key_order.V3_SECURITY_SCHEME.arranged(result | extensions(source))


def _flows_v3(source: Object, at: Place) -> Object:
    name = as_text(source.get("flow"), (at, "flow"))
    if name not in _V3_FLOWS:
        raise invalid((at, "flow"), f"{name!r} is not a flow of OAuth")
    flow: Object = {
        url: as_text(source[url], (at, url))
        for url in ("authorizationUrl", "tokenUrl")
        if url in source
    }
    flow["scopes"] = as_object(source.get("scopes", {}), (at, "scopes"))
    return {_V3_FLOWS[name]: flow}


def downgraded(value: JSONValue, at: Place) -> Object:
    """Return a scheme of v3 as v2; empty when v2 has none like it."""
    source = as_object(value, at)
    kind = as_text(source.get("type", ""), (at, "type"))
    result: Object = {"type": kind}
    if kind == "apiKey" and source.get("in") in ("query", "header"):
        result |= {name: as_text(source.get(name), (at, name)) for name in ("name", "in")}
    elif kind == "http" and str(source.get("scheme")).lower() == "basic":
        result["type"] = "basic"
    elif kind == "http":
        # Kubernetes' own v2 document declares its bearer tokens so.
        result |= {"type": "apiKey", "name": "authorization", "in": "header"}
    elif kind == "oauth2":
        result |= _flow_v2(as_object(source.get("flows"), (at, "flows")), (at, "flows"))
    else:
        return {}
    if kind == "oauth2" and "flow" not in result:
        return {}
    if "description" in source:
        result["description"] = as_text(source["description"], (at, "description"))
    return key_order.V2_SECURITY_SCHEME.arranged(result | extensions(source))


def _flow_v2(flows: Object, at: Place) -> Object:
    for name, old in _V2_FLOWS.items():
        if name in flows:
            flow = as_object(flows[name], (at, name))
            urls: Iterable[str] = (url for url in ("authorizationUrl", "tokenUrl") if url in flow)
            result: Object = {url: as_text(flow[url], ((at, name), url)) for url in urls}
            scopes = as_object(flow.get("scopes", {}), ((at, name), "scopes"))
            return result | {"flow": old, "scopes": scopes}
    return {}
