"""What must hold of the objects of OpenAPI 3.0 besides the types of their fields.

Rules are asked after the fields, and have to bear fields of any type: what is wrong with these has
been noted already.
"""

import re
from collections import Counter
from collections.abc import Sequence

from apidiscovery_formats.go_json import JSONValue
from apidiscovery_formats.openapi.loops import loops
from apidiscovery_formats.openapi.places import Place, json_path, path_of
from apidiscovery_formats.openapi.shapes import Object, Run, as_list, as_object, seen, target_of

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")

_TEMPLATE = re.compile(r"\{([^{}]*)\}")

# From a parameter to what it stands for; every document known has one at most.
_MAX_HOPS = 10

_STYLES = {
    "path": ("matrix", "label", "simple"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}

_OF_SCHEMES = {
    "apiKey": ("name", "in"),
    "http": ("scheme",),
    "oauth2": ("flows",),
    "openIdConnect": ("openIdConnectUrl",),
}


def document(value: Object, place: Place, run: Run) -> None:
    """Look at what concerns all of a document: links, names of tags, loops."""
    for at, operation_id in run.links:
        if operation_id not in run.operation_ids:
            run.wrong((at, "operationId"), f"no operation is {seen(operation_id)}")
    met: set[object] = set()
    for number, tag in enumerate(as_list(value.get("tags"))):
        name = as_object(tag).get("name")
        if isinstance(name, str):
            if name in met:
                run.wrong((((place, "tags"), number), "name"), f"{seen(name)} is there already")
            met.add(name)
    for section, name, through in loops(run.components):
        at = (((place, "components"), section), name)
        run.wrong(at, f"stands for nothing but itself, through {through}")


# Paths.


def distinct_paths(value: Object, place: Place, run: Run) -> None:
    """See that no two paths differ in the names of their parameters alone."""
    first: dict[str, str] = {}
    for path in value:
        same = first.setdefault(_TEMPLATE.sub("{}", path), path)
        if same != path:
            run.wrong((place, path), f"is the same path as {seen(same)}")


def path_item(value: Object, place: Place, run: Run) -> None:
    """See that the parameters in a path and those that are declared for it are the same."""
    path = str(place[1]) if place else ""
    names = _TEMPLATE.findall(path)
    if "" in names or not {"{", "}"}.isdisjoint(_TEMPLATE.sub("", path)):
        run.wrong(place, "want the parameters of a path as {name}")
        return
    for name, count in Counter(names).items():
        if count > 1:
            run.wrong(place, f"the parameter {seen(name)} stands in the path {count} times")
    shared = _declared(value, place, run, names)
    for method in METHODS:
        if method in value:
            at = (place, method)
            declared = shared | _declared(as_object(value[method]), at, run, names)
            for name in dict.fromkeys(names):
                if name not in declared:
                    run.wrong(at, f"no parameter in path declares {seen(name)}")


def _declared(value: Object, place: Place, run: Run, names: Sequence[str]) -> set[str]:
    """Return the names of the path parameters of a path item or an operation."""
    declared: set[str] = set()
    met: set[tuple[str, str]] = set()
    in_path = set(names)
    for number, listed in enumerate(as_list(value.get("parameters"))):
        name, where = _name_and_place(listed, run)
        at = ((place, "parameters"), number)
        if (name, where) in met:
            run.wrong(at, f"the parameter {seen(name)} in {where} stands more than once")
        elif where == "path" and name not in in_path:
            run.wrong(at, f"the path has no parameter {seen(name)}")
        elif where == "path":
            declared.add(name)
        if name and where:
            met.add((name, where))
    return declared


def _name_and_place(listed: JSONValue, run: Run) -> tuple[str, str]:
    """Return name and place of a parameter; empty ones of what is none."""
    value = as_object(listed)
    for _ in range(_MAX_HOPS):
        if "$ref" not in value:
            break
        value = as_object(run.component(value, "parameters"))
    name, where = value.get("name"), value.get("in")
    return (name, where) if isinstance(name, str) and isinstance(where, str) else ("", "")


def operation(value: Object, place: Place, run: Run) -> None:
    """See that no other operation has its operationId."""
    operation_id = value.get("operationId")
    if not isinstance(operation_id, str):
        return
    at = (place, "operationId")
    first = run.operation_ids.setdefault(operation_id, at)
    if first is not at:
        run.wrong(at, f"{seen(operation_id)} is there already, at {json_path(path_of(first))}")


def responses(value: Object, place: Place, run: Run) -> None:
    """See that an operation has an answer."""
    if not run.published and all(name.startswith("x-") for name in value):
        run.wrong(place, "want at least one response")


# Parameters and bodies.


def example(value: Object, place: Place, run: Run) -> None:
    """See that an example is told in one way."""
    _not_both(value, "value", "externalValue", place, run)


def example_or_examples(value: Object, place: Place, run: Run) -> None:
    """See that there is one kind of examples."""
    _not_both(value, "example", "examples", place, run)


def header(value: Object, place: Place, run: Run) -> None:
    """See that one thing describes the value of a header or parameter."""
    example_or_examples(value, place, run)
    if ("schema" in value) == ("content" in value):
        run.wrong(place, "want either schema or content")
    content = value.get("content")
    if isinstance(content, dict) and len(as_object(content)) != 1:
        run.wrong((place, "content"), f"want one media type, got {len(as_object(content))}")


def parameter(value: Object, place: Place, run: Run) -> None:
    """Look at what a parameter may be, depending on where it stands."""
    header(value, place, run)
    where = value.get("in")
    if where == "path" and value.get("required") is not True:
        run.wrong(place, "want required to be true for a parameter in the path")
    style = value.get("style")
    styles = _STYLES.get(where, ()) if isinstance(where, str) else ()
    if isinstance(style, str) and styles and style not in styles:
        run.wrong((place, "style"), f"want one of {', '.join(styles)}, got {seen(style)}")


def link(value: Object, place: Place, run: Run) -> None:
    """See that a link names one operation."""
    if ("operationRef" in value) == ("operationId" in value):
        run.wrong(place, "want either operationRef or operationId")
    operation_id = value.get("operationId")
    if isinstance(operation_id, str):
        run.links.append((place, operation_id))


def _not_both(value: Object, one: str, other: str, place: Place, run: Run) -> None:
    if one in value and other in value:
        run.wrong(place, f"want either {one} or {other}")


# Schemas.


def schema(value: Object, place: Place, run: Run) -> None:
    """Look at what of a schema depends on something else in it."""
    if value.get("type") == "array" and "items" not in value:
        run.wrong(place, "items is required, for type is array")
    if value.get("readOnly") is True and value.get("writeOnly") is True:
        run.wrong(place, "want readOnly or writeOnly, not both")
    for name in ("enum", "allOf", "oneOf", "anyOf"):
        if value.get(name) == [] and not run.published:
            run.wrong((place, name), "want at least one")


def discriminator(value: Object, place: Place, run: Run) -> None:
    """See that the schemas that are chosen from are there."""
    schemas = run.components.get("schemas", {})
    for key, target in as_object(value.get("mapping")).items():
        name = target_of({"$ref": target}, "schemas") or target
        if isinstance(name, str) and name not in schemas:
            run.wrong(((place, "mapping"), key), f"{seen(target)} is no schema of the document")


# Security.


def security_requirement(value: Object, place: Place, run: Run) -> None:
    """See that the schemes are there."""
    schemes = run.components.get("securitySchemes", {})
    for name in value:
        if name not in schemes:
            run.wrong((place, name), "no security scheme has this name")


def security_scheme(value: Object, place: Place, run: Run) -> None:
    """See that a scheme has what its type needs."""
    kind = value.get("type")
    for name in _OF_SCHEMES.get(kind, ()) if isinstance(kind, str) else ():
        if name not in value:
            run.wrong(place, f"{name} is required, for type is {kind}")
