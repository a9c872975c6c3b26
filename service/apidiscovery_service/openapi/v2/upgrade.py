"""OpenAPI v2 documents as v3.

The result is that of Kubernetes (kube-openapi `openapiconv: ConvertV2ToV3`), in the same order, but
every reference resolves, and what v3 can express is not lost. Only whether a body is required, the
security of the whole document, and schemes are dropped, as Kubernetes drops them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from apidiscovery_formats.openapi.pointers import Place

from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.openapi.references import (
    MAX_HOPS,
    UNRESOLVED,
    ComponentNames,
    pointed,
    pointer_token,
    resolves,
)
from apidiscovery_service.openapi.v2 import key_order, security_schemes
from apidiscovery_service.openapi.v2.fields import (
    DESCRIPTION,
    FORM_TYPES,
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
from apidiscovery_service.openapi.v2.schemas import SchemasToV3, simple_schema, style


def convert(document: Mapping[str, JSONValue]) -> Object:
    """Return a v2 document as v3.

    Dangling references become schemas that allow anything, or empty responses, marked by
    `x-apidiscovery-unresolved`; missing parameters are listed in an extension of that name on their
    operation.

    Args:
        document: JSON values. It is not changed; the result shares parts with it and within itself.

    Raises:
        InvalidOpenAPI: It is not a v2 document, a value has a wrong type, it nests too deeply, or
            the result would be too large.
    """
    source = as_object(dict(document), None)
    check_depth(source)
    if source.get("swagger") != "2.0":
        raise invalid((None, "swagger"), f"must be '2.0', but is {source.get('swagger')!r}")
    return _Conversion(source).document()


@dataclass(frozen=True, slots=True)
class _MediaTypes:
    """Media types in the order in which they are written, and their length as JSON."""

    names: list[str]
    size: int


@dataclass(slots=True)
class _Inputs:
    """Parameters by what they become: parameters, the body, fields of forms, or missing ones."""

    plain: list[JSONValue] = field(default_factory=list[JSONValue])
    body: tuple[Object, Place] | None = None
    form: list[tuple[Object, Place]] = field(default_factory=list[tuple[Object, Place]])
    missing: list[JSONValue] = field(default_factory=list[JSONValue])


class _Conversion:
    """The conversion of one document."""

    def __init__(self, source: Object) -> None:
        self._source = source
        self._size_limit = SizeLimit()
        # By identity of the parameter, which any number of operations may refer to.
        self._body_schemas: dict[int, Object] = {}
        self._schemas = SchemasToV3(self._section("definitions"))
        self._parameters = self._section("parameters")
        self._responses = self._section("responses")
        self._parameter_names = ComponentNames(self._parameters.keys())
        self._response_names = ComponentNames(self._responses.keys())
        self._security_names = ComponentNames(self._section("securityDefinitions").keys())
        self._consumes = self._media_types(source, None, "consumes")
        self._produces = self._media_types(source, None, "produces")

    def _section(self, name: str) -> Object:
        return as_object(self._source.get(name, {}), (None, name))

    def document(self) -> Object:
        info = as_object(self._source.get("info"), (None, "info"))
        result: Object = {
            "openapi": "3.0.0",
            "info": key_order.INFO.arranged(info),
            "paths": self._paths(),
            "servers": self._servers(),
            "components": self._components(),
        }
        if not result["servers"]:
            del result["servers"]
        result |= present(self._source, None, {"tags": as_list, "externalDocs": as_object})
        self._close_deep_references(as_object(result["components"], None))
        return result | extensions(self._source)

    def _servers(self) -> list[JSONValue]:
        """Return the servers of a document; empty when its paths are at the server's root."""
        host = as_text(self._source.get("host", ""), (None, "host"))
        base = as_text(self._source.get("basePath", ""), (None, "basePath"))
        if not host and base in ("", "/"):
            return []
        schemes = as_texts(self._source.get("schemes", []), (None, "schemes"))
        starts = [f"{scheme}://{host}" for scheme in schemes] or [f"//{host}"]
        return [{"url": start + base} for start in (starts if host else [""])]

    def _components(self) -> Object:
        """Return the components; schemas come last, when all references to them are known."""
        sections = {
            "securitySchemes": self._security_schemes(),
            "responses": self._response_components(),
            "parameters": self._parameter_components(),
        }
        sections = {"schemas": self._schema_components()} | sections
        return {name: dict(sorted(made.items())) for name, made in sections.items() if made}

    def _schema_components(self) -> Object:
        at: Place = (None, "definitions")
        made: Object = {
            self._schemas.names[name]: self._schemas.schema(value, (at, name))
            for name, value in self._section("definitions").items()
        }
        return made | self._schemas.unknown()

    def _response_components(self) -> Object:
        at: Place = (None, "responses")
        return {
            self._response_names[name]: self._response(value, self._produces, (at, name))
            for name, value in self._responses.items()
        }

    def _parameter_components(self) -> Object:
        """Return the parameters that are components in v3: all but bodies and forms."""
        made: Object = {}
        for name, value in self._parameters.items():
            at: Place = ((None, "parameters"), name)
            inputs = _Inputs()
            self._add_input(inputs, value, at)
            if inputs.plain:
                made[self._parameter_names[name]] = inputs.plain[0]
        return made

    def _close_deep_references(self, components: Object) -> None:
        """Mark references into a component that do not lead to an object."""
        schemas = as_object(components.get("schemas", {}), None)
        for schema, name, rest in self._schemas.deep:
            if not resolves(schemas[name], rest):
                reference = schema.pop("$ref")
                schema[UNRESOLVED] = reference

    def _security_schemes(self) -> Object:
        at: Place = (None, "securityDefinitions")
        made: Object = {}
        for name, value in self._section("securityDefinitions").items():
            scheme = as_object(value, (at, name))
            made[self._security_names[name]] = security_schemes.upgraded(scheme, (at, name))
        return made

    def _media_types(self, source: Object, at: Place, name: str) -> _MediaTypes:
        given = as_texts(source.get(name, []), (at, name))
        names = sorted({text for text in given if isinstance(text, str)}) or ["*/*"]
        return _MediaTypes(names, sum(len(text) + len('"":{"schema":},') for text in names))

    def _content(self, types: _MediaTypes, schema: Object) -> Object:
        """Return content with the same schema for each media type."""
        self._size_limit.charge(types.size + len(types.names) * self._size_limit.size(schema))
        return {name: {"schema": schema} for name in types.names}

    def _paths(self) -> Object:
        at: Place = (None, "paths")
        source = self._section("paths")
        return paths_of(source, at, self._path_item)

    def _path_item(self, value: JSONValue, at: Place) -> Object:
        source = as_object(value, at)
        shared = self._inputs(as_list(source.get("parameters", []), (at, "parameters")), at)
        result: Object = {}
        for method in key_order.METHODS:
            if method in source:
                result[method] = self._operation(source[method], shared, (at, method))
        if shared.plain:
            result["parameters"] = shared.plain
        if shared.missing:
            result[UNRESOLVED] = shared.missing
        if "$ref" in source:
            result |= self._path_reference(as_text(source["$ref"], (at, "$ref")))
        return key_order.PATH_ITEM.arranged(result | extensions(source))

    def _path_reference(self, reference: str) -> Object:
        target = pointed(reference, "#/paths/")
        paths = self._section("paths")
        if target is None or target[1] or not target[0].startswith("/") or target[0] not in paths:
            return {UNRESOLVED: [reference]}
        return {"$ref": "#/paths/" + pointer_token(target[0])}

    def _operation(self, value: JSONValue, shared: _Inputs, at: Place) -> Object:
        source = as_object(value, at)
        result = present(source, at, OPERATION)
        inputs = self._inputs(as_list(source.get("parameters", []), (at, "parameters")), at)
        if inputs.plain:
            result["parameters"] = inputs.plain
        body = self._request_body(source, inputs, at) or self._request_body(source, shared, at)
        if body:
            result["requestBody"] = body
        produces = self._media_types(source, at, "produces") if "produces" in source else None
        responses = as_object(source.get("responses"), (at, "responses"))
        result["responses"] = self._responses_of(
            responses, produces or self._produces, (at, "responses")
        )
        if "security" in source:
            result["security"] = self._requirements(source["security"], (at, "security"))
        if inputs.missing:
            result[UNRESOLVED] = inputs.missing
        return key_order.V3_OPERATION.arranged(result | extensions(source))

    def _requirements(self, value: JSONValue, at: Place) -> list[JSONValue]:
        result: list[JSONValue] = []
        for index, item in enumerate(as_list(value, at)):
            needed = as_object(item, (at, index))
            place: Place = (at, index)
            result.append(
                {
                    self._security_names.add(name): as_texts(needed[name], (place, name))
                    for name in sorted(needed)
                }
            )
        return result

    def _inputs(self, parameters: list[JSONValue], at: Place) -> _Inputs:
        result = _Inputs()
        for index, value in enumerate(parameters):
            self._add_input(result, value, ((at, "parameters"), index))
        return result

    def _add_input(self, inputs: _Inputs, value: JSONValue, at: Place) -> None:
        source = as_object(value, at)
        reference = ""
        if "$ref" in source:
            reference = as_text(source["$ref"], (at, "$ref"))
            target = self._target(reference, self._parameters, "parameters")
            if target is None:
                inputs.missing.append(reference)
                return
            name, source, at = target
            reference = "#/components/parameters/" + pointer_token(self._parameter_names[name])
        place = as_text(source.get("in"), (at, "in"))
        if place == "body":
            inputs.body = (source, at)
        elif place == "formData":
            inputs.form.append((source, at))
        else:
            inputs.plain.append({"$ref": reference} if reference else self._parameter(source, at))

    def _target(
        self, reference: str, section: Object, name: str
    ) -> tuple[str, Object, Place] | None:
        """Return the name, the value and the place that a reference leads to in the end.

        None when that does not exist, or is more than `MAX_HOPS` references away.
        """
        prefix = f"#/{name}/"
        for _ in range(MAX_HOPS):
            target = pointed(reference, prefix)
            if target is None or target[1] or target[0] not in section:
                return None
            at: Place = ((None, name), target[0])
            source = as_object(section[target[0]], at)
            if "$ref" not in source:
                return target[0], source, at
            reference = as_text(source["$ref"], (at, "$ref"))
        return None

    def _parameter(self, source: Object, at: Place) -> Object:
        result = parameter_fields(source, at)
        if "schema" in source:
            result["schema"] = self._schemas.schema(source["schema"], (at, "schema"))
        else:
            result["schema"] = simple_schema(source, at)
            result |= style(source, str(result["in"]), at)
        return key_order.V3_PARAMETER.arranged(result | extensions(source))

    def _request_body(self, operation: Object, inputs: _Inputs, at: Place) -> Object:
        """Return the body of a request; empty when there is none."""
        types = self._consumes
        if "consumes" in operation:
            types = self._media_types(operation, at, "consumes")
        if inputs.body is not None:
            return self._plain_body(*inputs.body, types)
        return self._form(inputs.form, types) if inputs.form else {}

    def _plain_body(self, source: Object, at: Place, types: _MediaTypes) -> Object:
        result = present(source, at, DESCRIPTION)
        if id(source) not in self._body_schemas:
            schema = self._schemas.schema(source.get("schema", {}), (at, "schema"))
            self._body_schemas[id(source)] = schema
        result["content"] = self._content(types, self._body_schemas[id(source)])
        return result | extensions(source)

    def _form(self, fields: list[tuple[Object, Place]], types: _MediaTypes) -> Object:
        """Return the body that holds the fields of a form."""
        properties: Object = {}
        required: list[JSONValue] = []
        encoding: Object = {}
        for source, at in fields:
            name = as_text(source.get("name"), (at, "name"))
            properties[name] = _form_property(source, at)
            if as_flag(source.get("required", False), (at, "required")):
                required.append(name)
            how = style(source, "query", at)
            if "style" in how:
                encoding[name] = how
        schema: Object = {"type": "object", "properties": properties}
        if required:
            schema["required"] = sorted(set(map(str, required)))
        media: Object = {"schema": key_order.SCHEMA.arranged(schema)}
        if encoding:
            media["encoding"] = encoding
        content = self._form_types(fields, types)
        self._size_limit.charge(types.size + len(content) * self._size_limit.size(media))
        body: Object = {"content": dict.fromkeys(content, media)}
        return body | ({"required": True} if required else {})

    def _form_types(self, fields: list[tuple[Object, Place]], types: _MediaTypes) -> list[str]:
        forms = [*filter(is_form, types.names)]
        if forms:
            return forms
        has_file = any(source.get("type") == "file" for source, _ in fields)
        return [FORM_TYPES[has_file]]

    def _responses_of(self, source: Object, types: _MediaTypes, at: Place) -> Object:
        result: Object = {}
        for code in key_order.RESPONSES.names(source):
            if code.startswith("x-"):
                result[code] = source[code]
            elif code == "default" or (len(code) == len("200") and code.isdecimal()):
                result[code] = self._response(source[code], types, (at, code))
            else:
                raise invalid((at, code), "a response is named by a status code or `default`")
        if not result:
            raise invalid(at, "an operation must have a response")
        return result

    def _response(self, value: JSONValue, types: _MediaTypes, at: Place) -> Object:
        source = as_object(value, at)
        if "$ref" in source:
            return self._response_reference(as_text(source["$ref"], (at, "$ref")))
        description = as_text(source.get("description", ""), (at, "description"))
        result: Object = {"description": description}
        if "headers" in source:
            result["headers"] = self._headers(source["headers"], (at, "headers"))
        content: Object = {}
        if "schema" in source:
            content = self._content(types, self._schemas.schema(source["schema"], (at, "schema")))
        if "examples" in source:
            _add_examples(content, as_object(source["examples"], (at, "examples")))
        if content:
            result["content"] = {name: content[name] for name in sorted(content)}
        return result | extensions(source)

    def _response_reference(self, reference: str) -> Object:
        target = self._target(reference, self._responses, "responses")
        if target is None:
            return {"description": "", UNRESOLVED: reference}
        return {"$ref": "#/components/responses/" + pointer_token(self._response_names[target[0]])}

    def _headers(self, value: JSONValue, at: Place) -> Object:
        source = as_object(value, at)
        return {name: _header(as_object(source[name], at), (at, name)) for name in sorted(source)}


def _form_property(source: Object, at: Place) -> Object:
    result = simple_schema(source, at) | present(source, at, DESCRIPTION)
    return key_order.SCHEMA.arranged(result | extensions(source))


def _header(source: Object, at: Place) -> Object:
    result = present(source, at, DESCRIPTION) | style(source, "header", at)
    return result | {"schema": simple_schema(source, at)} | extensions(source)


def _add_examples(content: Object, examples: Object) -> None:
    for media_type, example in examples.items():
        media = as_object(content.get(media_type, {}), None)
        content[media_type] = media | {"example": example}
