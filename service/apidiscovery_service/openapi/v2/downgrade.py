"""OpenAPI v3 documents as v2.

What v2 cannot express is left out: servers, callbacks, links, parameters in cookies, tags of the
document, bearer tokens other than as a header, and differences between media types: a body and a
response have one schema each.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from apidiscovery_formats.openapi.pointers import Place

from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.openapi.references import MAX_HOPS, UNRESOLVED, pointed, pointer_token
from apidiscovery_service.openapi.v2 import key_order, security_schemes
from apidiscovery_service.openapi.v2.fields import (
    DESCRIPTION,
    OPERATION,
    Object,
    SizeLimit,
    as_flag,
    as_list,
    as_object,
    as_text,
    as_texts,
    check_depth,
    extensions,
    invalid,
    is_form,
    parameter_fields,
    paths_of,
    present,
)
from apidiscovery_service.openapi.v2.schemas import SchemasToV2

# A section of a v2 document and a name in it.
Entry: TypeAlias = tuple[str, str]

# Sections of v3's components, and where their members are in v2: bodies are parameters there.
SECTIONS: Final = {
    "schemas": "definitions",
    "parameters": "parameters",
    "requestBodies": "parameters",
    "responses": "responses",
    "securitySchemes": "securityDefinitions",
}

_SIMPLE_TYPES: Final = ("string", "number", "integer", "boolean", "array")

_MAX_ITEM_LEVELS: Final = 4

_COLLECTION_FORMATS: Final = {"spaceDelimited": "ssv", "pipeDelimited": "pipes"}


@dataclass(frozen=True, slots=True)
class Component:
    """A component as v2 has it, and the components of v3 that it refers to."""

    value: Object
    referred: frozenset[Entry]


class Downgrade:
    """The conversion of one document.

    Attributes:
        names: By section of v3, the names that its components have in v2.
    """

    def __init__(self, source: Object, renamed: Mapping[Entry, str] | None = None) -> None:
        """Take a v3 document, and other names for some components, by section and name of v3."""
        check_depth(source)
        version = as_text(source.get("openapi"), (None, "openapi"))
        if not version.startswith("3."):
            raise invalid((None, "openapi"), f"must be '3.0.x', but is {version!r}")
        self._source = source
        self._size_limit = SizeLimit()
        components = as_object(source.get("components", {}), (None, "components"))
        self._sections = {
            section: as_object(components.get(section, {}), ((None, "components"), section))
            for section in (*SECTIONS, "headers")
        }
        self.names = self._all_names(renamed or {})
        self.schemas = SchemasToV2(self.names["schemas"])
        self._referred: set[Entry] = set()
        self._security = source.get("security")
        schemes = self._sections["securitySchemes"]
        at: Place = ((None, "components"), "securitySchemes")
        self._security_names = {
            name for name in schemes if security_schemes.downgraded(schemes[name], (at, name))
        }

    def _all_names(self, renamed: Mapping[Entry, str]) -> dict[str, dict[str, str]]:
        names = {
            section: {name: renamed.get((section, name), name) for name in self._sections[section]}
            for section in SECTIONS
        }
        # Bodies and parameters are in one section in v2, so a body may need another name.
        taken = set(names["parameters"].values())
        for name, plain in sorted(names["requestBodies"].items()):
            free, number = plain, 1
            while free in taken:
                free = f"{plain}_body{number if number > 1 else ''}"
                number += 1
            names["requestBodies"][name] = free
            taken.add(free)
        return names

    def section(self, name: str) -> Object:
        """Return a section of the components of v3."""
        return self._sections[name]

    def has(self, entry: Entry) -> bool:
        """Return whether a component is there, by section and name of v3."""
        return entry[1] in self._sections[entry[0]]

    def components(self, entries: Iterable[Entry]) -> dict[Entry, Component]:
        """Return those of some components that v2 has too, by section and name of v3."""
        makers = {
            "schemas": self.schemas.root,
            "parameters": self._parameter_component,
            "requestBodies": self._body_component,
            "responses": self._response,
            "securitySchemes": security_schemes.downgraded,
        }
        result: dict[Entry, Component] = {}
        for section, name in entries:
            self._take_referred()
            at: Place = (((None, "components"), section), name)
            made = makers[section](self._sections[section][name], at)
            if made:
                result[section, name] = Component(made, self._take_referred())
            elif section == "schemas":
                result[section, name] = Component({}, frozenset())
        return result

    def _take_referred(self) -> frozenset[Entry]:
        taken = self._referred | {("schemas", name) for name in self.schemas.referred}
        self._referred.clear()
        self.schemas.referred.clear()
        return frozenset(taken)

    def paths(self) -> Object:
        at: Place = (None, "paths")
        source = as_object(self._source.get("paths", {}), at)
        return paths_of(source, at, self._path_item)

    def _path_item(self, value: JSONValue, at: Place) -> Object:
        source = as_object(value, at)
        result: Object = {}
        for method in key_order.METHODS:
            if method in source:
                result[method] = self._operation(source[method], (at, method))
        if "parameters" in source:
            result["parameters"] = self._parameters(source["parameters"], (at, "parameters"))
        if "$ref" in source:
            result["$ref"] = as_text(source["$ref"], (at, "$ref"))
        return key_order.PATH_ITEM.arranged(result | extensions(source))

    def _operation(self, value: JSONValue, at: Place) -> Object:
        source = as_object(value, at)
        result = present(source, at, OPERATION)
        parameters = self._parameters(source.get("parameters", []), (at, "parameters"))
        if "requestBody" in source:
            consumes, inputs = self._inputs(source["requestBody"], (at, "requestBody"))
            parameters = [*inputs, *parameters]
            if consumes:
                result["consumes"] = consumes
        if parameters:
            result["parameters"] = parameters
        produces = self._produces(as_object(source.get("responses", {}), (at, "responses")))
        if produces:
            result["produces"] = produces
        result["responses"] = self._responses(source.get("responses", {}), (at, "responses"))
        security = source.get("security", self._security)
        if security is not None:
            self._size_limit.charge(self._size_limit.size(security))
            result |= self._requirements(security, (at, "security"))
        return key_order.V2_OPERATION.arranged(result | extensions(source))

    def _requirements(self, value: JSONValue, at: Place) -> Object:
        """Return the security of an operation; empty when v2 cannot express any of it."""
        given = as_list(value, at)
        result: list[JSONValue] = []
        for index, item in enumerate(given):
            needed = as_object(item, (at, index))
            if self._security_names.issuperset(needed):
                self._referred.update(("securitySchemes", name) for name in needed)
                names = self.names["securitySchemes"]
                result.append({names[name]: needed[name] for name in sorted(needed)})
        return {"security": result} if result or not given else {}

    def _target(self, value: JSONValue, section: str, at: Place) -> Entry | None:
        """Return the component that a value refers to, if it does and the component is there."""
        reference = as_text(as_object(value, at)["$ref"], (at, "$ref"))
        target = pointed(reference, f"#/components/{section}/")
        if target is None or target[1] or target[0] not in self._sections[section]:
            return None
        return section, target[0]

    def _resolved(self, value: JSONValue, section: str, at: Place) -> Object:
        """Return a value, or what it refers to in the end; empty when that does not exist."""
        source = as_object(value, at)
        for _ in range(MAX_HOPS):
            if "$ref" not in source:
                break
            target = self._target(source, section, at)
            source = as_object(self._sections[section][target[1]], at) if target else {}
        if source is not value:
            self._size_limit.charge(self._size_limit.size(source))
        return source if "$ref" not in source else {}

    def _refer(self, entry: Entry) -> Object:
        self._referred.add(entry)
        section, name = entry
        return {"$ref": f"#/{SECTIONS[section]}/{pointer_token(self.names[section][name])}"}

    def _parameters(self, value: JSONValue, at: Place) -> list[JSONValue]:
        result: list[JSONValue] = []
        for index, item in enumerate(as_list(value, at)):
            source = as_object(item, (at, index))
            resolved = self._resolved(source, "parameters", (at, index))
            if resolved.get("in", "cookie") == "cookie":
                continue
            target = self._target(source, "parameters", (at, index)) if "$ref" in source else None
            result.append(self._refer(target) if target else self._parameter(source, (at, index)))
        return result

    def _parameter_component(self, value: JSONValue, at: Place) -> Object:
        source = self._resolved(value, "parameters", at)
        return self._parameter(source, at) if source.get("in", "cookie") != "cookie" else {}

    def _parameter(self, source: Object, at: Place) -> Object:
        result = parameter_fields(source, at)
        result |= self._simple(source.get("schema", {}), (at, "schema"))
        if result["type"] == "array":
            result |= _collection_format(source)
        return key_order.V2_PARAMETER.arranged(result | extensions(source))

    def _simple(self, value: JSONValue, at: Place) -> Object:
        """Return the fields that v2 has in place of the schema of a simple value.

        A value of a type that v2 does not allow there becomes a string, which is its form.
        """
        source = self._resolved(value, "schemas", at)
        result: Object = {name: source[name] for name in source if name in _SIMPLE}
        kind = result.get("type")
        if kind not in _SIMPLE_TYPES:
            result["type"] = "string"
        if kind == "array":
            items = self._simple(source.get("items", {}), (at, "items")) if _nests(at) else {}
            result["items"] = key_order.V2_PARAMETER.arranged(items or {"type": "string"})
        return result

    def _inputs(self, value: JSONValue, at: Place) -> tuple[list[JSONValue], list[JSONValue]]:
        """Return the media types of a request body, and the parameters that it becomes in v2."""
        source = self._resolved(value, "requestBodies", at)
        content = as_object(source.get("content", {}), (at, "content"))
        types: list[JSONValue] = [*sorted(content)]
        self._size_limit.charge(sum(map(len, content)))
        target = self._target(value, "requestBodies", at) if value is not source else None
        if target:
            return types, [self._refer(target)]
        form = self._form(content, (at, "content"))
        return types, form or [self._body(source, at)]

    def _body_component(self, value: JSONValue, at: Place) -> Object:
        return self._body(self._resolved(value, "requestBodies", at), at)

    def _body(self, source: Object, at: Place) -> Object:
        """Return the parameter of the body; Kubernetes always names it `body`."""
        result: Object = {"name": "body", "in": "body"}
        result |= present(source, at, {**DESCRIPTION, "required": as_flag})
        content = as_object(source.get("content", {}), (at, "content"))
        result["schema"] = self._one_schema(content, (at, "content")) or {}
        return key_order.V2_PARAMETER.arranged(result | extensions(source))

    def _form(self, content: Object, at: Place) -> list[JSONValue]:
        """Return the fields of a form; empty when the body is none or has no schema."""
        if not content or not all(map(is_form, content)):
            return []
        name = min(content)
        schema = as_object(content[name], (at, name)).get("schema", {})
        fields = as_object(schema, ((at, name), "schema"))
        properties = as_object(fields.get("properties", {}), ((at, name), "schema"))
        required = set(map(str, as_texts(fields.get("required", []), ((at, name), "schema"))))
        return [
            key_order.V2_PARAMETER.arranged(
                self._form_field(field, properties[field], ((at, name), field))
                | ({"required": True} if field in required else {})
            )
            for field in sorted(properties)
        ]

    def _form_field(self, name: str, value: JSONValue, at: Place) -> Object:
        source = as_object(value, at)
        result = self._simple(source, at) | {"name": name, "in": "formData"}
        if source.get("format") == "binary":
            del result["format"]
            result["type"] = "file"
        return result | present(source, at, DESCRIPTION) | extensions(source)

    def _one_schema(self, content: Object, at: Place) -> Object | None:
        """Return the schema of JSON, or of the first media type that has one."""
        for name in sorted(content, key=lambda name: (name != "application/json", name)):
            media = as_object(content[name], (at, name))
            if "schema" in media:
                return self.schemas.schema(media["schema"], ((at, name), "schema"))
        return None

    def _produces(self, responses: Object) -> list[JSONValue]:
        """Return the media types of all responses that are there."""
        types: set[str] = set()
        for code, value in responses.items():
            if not code.startswith("x-"):
                at: Place = ((None, "responses"), code)
                resolved = self._resolved(value, "responses", at)
                content = as_object(resolved.get("content", {}), (at, "content"))
                self._size_limit.charge(sum(map(len, content)))
                types.update(content)
        return [*sorted(types)]

    def _responses(self, value: JSONValue, at: Place) -> Object:
        """Return responses by status code; `4XX`, which v2 does not have, becomes `400`."""
        source = as_object(value, at)
        result: Object = {}
        for code in key_order.RESPONSES.names(source):
            plain = code.upper().replace("XX", "00")
            if code.startswith("x-"):
                result[code] = source[code]
            elif code != "default" and not (len(plain) == len("200") and plain.isdecimal()):
                raise invalid((at, code), "a response is named by a status code or `default`")
            elif code in ("default", plain) or plain not in source:
                name = code if code == "default" else plain
                result[name] = self._response_or_reference(source[code], (at, code))
        return result or {"default": {"description": ""}}

    def _response_or_reference(self, value: JSONValue, at: Place) -> Object:
        source = as_object(value, at)
        target = self._target(source, "responses", at) if "$ref" in source else None
        return self._refer(target) if target else self._response(source, at)

    def _response(self, value: JSONValue, at: Place) -> Object:
        source = self._resolved(value, "responses", at)
        description = as_text(source.get("description", ""), (at, "description"))
        result: Object = {"description": description}
        if not source:
            result[UNRESOLVED] = as_object(value, at).get("$ref", "")
        content = as_object(source.get("content", {}), (at, "content"))
        schema = self._one_schema(content, (at, "content"))
        if schema is not None:
            result["schema"] = schema
        if "headers" in source:
            headers = as_object(source["headers"], (at, "headers"))
            place: Place = (at, "headers")
            result["headers"] = {
                name: self._header(headers[name], (place, name)) for name in sorted(headers)
            }
        return result | _examples(content) | extensions(source)

    def _header(self, value: JSONValue, at: Place) -> Object:
        source = self._resolved(value, "headers", at)
        result = self._simple(source.get("schema", {}), (at, "schema"))
        result |= present(source, at, DESCRIPTION)
        return key_order.V2_PARAMETER.arranged(result | extensions(source))


# Fields of a simple value in v2, without its items.
_SIMPLE: Final = frozenset(
    (
        *("type", "format", "default", "maximum", "exclusiveMaximum", "minimum"),
        *("exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems"),
        *("uniqueItems", "multipleOf", "enum"),
    )
)


def _nests(at: Place) -> bool:
    """Return whether items may nest further; references may make them endless."""
    levels = 0
    while at is not None and at[1] == "items":
        at, levels = at[0], levels + 1
    return levels < _MAX_ITEM_LEVELS


def _collection_format(source: Object) -> Object:
    if source["in"] == "query" and source.get("explode", True) is True:
        return {"collectionFormat": "multi"}
    form = _COLLECTION_FORMATS.get(str(source.get("style")))
    return {"collectionFormat": form} if form else {}


def _examples(content: Object) -> Object:
    examples: Object = {
        name: media["example"]
        for name, media in sorted(content.items())
        if isinstance(media, dict) and "example" in media
    }
    return {"examples": examples} if examples else {}
