"""Security schemes of OpenAPI v2 and v3."""

from collections.abc import Mapping
from typing import Final

from apidiscovery_formats.openapi.pointers import Place

from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.openapi.v2 import key_order
from apidiscovery_service.openapi.v2.fields import (
    DESCRIPTION,
    Convert,
    Object,
    as_object,
    as_text,
    extensions,
    invalid,
    present,
)

# v2 has one flow for each scheme: the first of these.
_V3_FLOWS: Final = {
    "implicit": "implicit",
    "password": "password",
    "application": "clientCredentials",
    "accessCode": "authorizationCode",
}
_URLS: Final[Mapping[str, Convert]] = {"authorizationUrl": as_text, "tokenUrl": as_text}


def upgraded(source: Object, at: Place) -> Object:
    """Return a scheme of v2 as v3."""
    kind = as_text(source.get("type"), (at, "type"))
    result: Object = {"type": kind}
    result |= present(source, at, dict.fromkeys(("description", "name", "in"), as_text))
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
    flow = present(source, at, _URLS)
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
    result |= present(source, at, DESCRIPTION)
    return key_order.V2_SECURITY_SCHEME.arranged(result | extensions(source))


def _flow_v2(flows: Object, at: Place) -> Object:
    for old, name in _V3_FLOWS.items():
        if name in flows:
            flow = as_object(flows[name], (at, name))
            result = present(flow, (at, name), _URLS)
            scopes = as_object(flow.get("scopes", {}), ((at, name), "scopes"))
            return result | {"flow": old, "scopes": scopes}
    return {}
