"""Rules of OpenAPI 3.0 beyond the types of fields.

Rules run after the fields of an object were checked, and must accept fields of any type: wrong
types have been reported already.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from apidiscovery_formats.go_json import JSONValue
from apidiscovery_formats.json_values import as_list, as_object
from apidiscovery_formats.openapi.pointers import Place, json_path, path_of
from apidiscovery_formats.openapi.shapes import Object, Run, seen, target_of

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")

_TEMPLATE = re.compile(r"\{([^{}]*)\}")

# References from a parameter to its definition; known documents have one at most.
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
    """Check what concerns the whole document: links, names of tags, loops."""
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
    for section, name, through in _loops(run.components):
        at = (((place, "components"), section), name)
        run.wrong(at, f"stands for nothing but itself, through {through}")


# Paths.


def distinct_paths(value: Object, place: Place, run: Run) -> None:
    """Check that paths differ in more than the names of their parameters."""
    first: dict[str, str] = {}
    for path in value:
        same = first.setdefault(_TEMPLATE.sub("{}", path), path)
        if same != path:
            run.wrong((place, path), f"is the same path as {seen(same)}")


def path_item(value: Object, place: Place, run: Run) -> None:
    """Check that a path declares exactly the parameters in its template."""
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
        name, where = _name_and_location(listed, run)
        at = ((place, "parameters"), number)
        if (name, where) in met:
            run.wrong(at, f"the parameter {seen(name)} in {where} is duplicated")
        elif where == "path" and name not in in_path:
            run.wrong(at, f"the path has no parameter {seen(name)}")
        elif where == "path":
            declared.add(name)
        if name and where:
            met.add((name, where))
    return declared


def _name_and_location(listed: JSONValue, run: Run) -> tuple[str, str]:
    """Return `name` and `in` of a parameter, empty where it is not one."""
    value = as_object(listed)
    for _ in range(_MAX_HOPS):
        if "$ref" not in value:
            break
        value = as_object(run.component(value, "parameters"))
    name, where = value.get("name"), value.get("in")
    return (name, where) if isinstance(name, str) and isinstance(where, str) else ("", "")


def operation(value: Object, place: Place, run: Run) -> None:
    """Check that its operationId is unique."""
    operation_id = value.get("operationId")
    if not isinstance(operation_id, str):
        return
    at = (place, "operationId")
    first = run.operation_ids.setdefault(operation_id, at)
    if first is not at:
        run.wrong(at, f"{seen(operation_id)} is there already, at {json_path(path_of(first))}")


def responses(value: Object, place: Place, run: Run) -> None:
    """Check that an operation has a response."""
    if not run.published and all(name.startswith("x-") for name in value):
        run.wrong(place, "want at least one response")


# Parameters and bodies.


def example(value: Object, place: Place, run: Run) -> None:
    """Check that an example has one source."""
    _not_both(value, "value", "externalValue", place, run)


def example_or_examples(value: Object, place: Place, run: Run) -> None:
    """Check that `example` and `examples` exclude each other."""
    _not_both(value, "example", "examples", place, run)


def header(value: Object, place: Place, run: Run) -> None:
    """Check that either schema or content describes a header or parameter."""
    example_or_examples(value, place, run)
    if ("schema" in value) == ("content" in value):
        run.wrong(place, "want either schema or content")
    content = value.get("content")
    if isinstance(content, dict) and len(as_object(content)) != 1:
        run.wrong((place, "content"), f"want one media type, got {len(as_object(content))}")


def parameter(value: Object, place: Place, run: Run) -> None:
    """Check what a parameter needs by its location."""
    header(value, place, run)
    where = value.get("in")
    if where == "path" and value.get("required") is not True:
        run.wrong(place, "want required to be true for a parameter in the path")
    style = value.get("style")
    styles = _STYLES.get(where, ()) if isinstance(where, str) else ()
    if isinstance(style, str) and styles and style not in styles:
        run.wrong((place, "style"), f"want one of {', '.join(styles)}, got {seen(style)}")


def link(value: Object, place: Place, run: Run) -> None:
    """Check that a link names one operation."""
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
    """Check fields of a schema that depend on each other."""
    if value.get("type") == "array" and "items" not in value:
        run.wrong(place, "items is required, for type is array")
    if value.get("readOnly") is True and value.get("writeOnly") is True:
        run.wrong(place, "want readOnly or writeOnly, not both")
    for name in ("enum", "allOf", "oneOf", "anyOf"):
        if value.get(name) == [] and not run.published:
            run.wrong((place, name), "want at least one")


def discriminator(value: Object, place: Place, run: Run) -> None:
    """Check that the schemas of a mapping exist."""
    schemas = run.components.get("schemas", {})
    for key, target in as_object(value.get("mapping")).items():
        name = target_of({"$ref": target}, "schemas") or target
        if isinstance(name, str) and name not in schemas:
            run.wrong(((place, "mapping"), key), f"{seen(target)} is not a schema of the document")


# Security.


def security_requirement(value: Object, place: Place, run: Run) -> None:
    """Check that the security schemes exist."""
    schemes = run.components.get("securitySchemes", {})
    for name in value:
        if name not in schemes:
            run.wrong((place, name), "no security scheme has this name")


def security_scheme(value: Object, place: Place, run: Run) -> None:
    """Check that a security scheme has the fields of its type."""
    kind = value.get("type")
    for name in _OF_SCHEMES.get(kind, ()) if isinstance(kind, str) else ():
        if name not in value:
            run.wrong(place, f"{name} is required, for type is {kind}")


Loop: TypeAlias = tuple[str, str, str]

_COMPOSED_OF = ("allOf", "oneOf", "anyOf")


def _loops(components: Mapping[str, Object]) -> Iterator[Loop]:
    """Yield loops: the section and name of a component, and the component that it refers to.

    A schema may contain itself as a property or an item: values end somewhere. A component that
    refers to itself in its own place, directly or through others or as a part of a composition, has
    no meaning, and following it never ends.
    """
    for section, content in components.items():
        graph = {name: _in_place(value, section) for name, value in content.items()}
        for name, through in _closed(graph):
            yield section, name, through


def _in_place(component: object, section: str) -> list[str]:
    """Return the names of the components that replace or compose one."""
    found: list[str] = []
    pending = [component]
    while pending:
        value = as_object(pending.pop())
        if (name := target_of(value, section)) is not None:
            found.append(name)
        elif section == "schemas":
            pending += [value["not"]] if "not" in value else []
            for keyword in _COMPOSED_OF:
                pending += as_list(value.get(keyword))
    return found


def _closed(graph: Mapping[str, Iterable[str]]) -> Iterator[tuple[str, str]]:
    """Yield each edge that closes a loop; every node and edge is visited once."""
    done: set[str] = set()
    for start in graph:
        if start in done:
            continue
        trail = {start}
        stack = [(start, iter(graph[start]))]
        while stack:
            name, targets = stack[-1]
            target = next(targets, None)
            if target is None:
                stack.pop()
                trail.discard(name)
                done.add(name)
            elif target in trail:
                yield name, target
            elif target in graph and target not in done:
                trail.add(target)
                stack.append((target, iter(graph[target])))
