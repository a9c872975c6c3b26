"""Converts one OpenAPI v3 document to v2, to be compared with a merge of it."""

from collections.abc import Mapping

from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.openapi.v2 import key_order
from apidiscovery_service.openapi.v2.downgrade import SECTIONS, Downgrade
from apidiscovery_service.openapi.v2.fields import Object, as_object


def downgrade(document: Mapping[str, JSONValue]) -> Object:
    """Return a v3 document as v2, as far as v2 can express it.

    Args:
        document: As a parser of JSON returns it. It is not changed, and the result shares parts
            with it.

    Raises:
        InvalidOpenAPI: It is not a v3 document, a value has a type that it must not have, it nests
            too deeply, or it would grow beyond measure.
    """
    conversion = Downgrade(as_object(dict(document), None))
    result: Object = {
        "swagger": "2.0",
        "info": key_order.INFO.arranged(as_object(document.get("info"), (None, "info"))),
        "paths": conversion.paths(),
    }
    sections: dict[str, Object] = {}
    every = [(section, name) for section in SECTIONS for name in conversion.section(section)]
    for (section, name), component in conversion.components(every).items():
        final = conversion.names[section][name]
        sections.setdefault(SECTIONS[section], {})[final] = component.value
    for section in dict.fromkeys(SECTIONS.values()):
        if section in sections:
            made = sections[section]
            result[section] = {name: made[name] for name in sorted(made)}
    return result
