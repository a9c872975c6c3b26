"""What of OpenAPI 3.0 a table of fields does not say."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from apidiscovery_client.openapi.json_documents import (
    Object,
    as_array,
    as_object,
    components,
    resolve,
    shown,
)
from apidiscovery_client.openapi.validation_tables import COMPONENT_OF, EXCLUSIVE, REQUIRED_WITH

Step = tuple[str | int, ...]
Found = Iterator[tuple[Step, str]]
Rule = Callable[[Object, Object], Found]

_VERSION = re.compile(r"3\.0\.\d+(-.+)?", re.ASCII)
_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_STATUS = re.compile(r"default|[1-5](?:[0-9]{2}|XX)")
_TEMPLATE = re.compile(r"\{([^{}]*)\}")
_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


def document_problems(document: Object) -> Found:
    """Yield what is wrong between the parts of a document; the path is from its top."""
    seen: dict[str, str] = {}
    templates: dict[str, str] = {}
    for path, item in (as_object(document.get("paths")) or {}).items():
        if path.startswith("x-"):
            continue
        yield from _path_problems(path, as_object(item) or {}, document)
        yield from _operation_ids(path, as_object(item) or {}, seen)
        shape = _TEMPLATE.sub("{}", path)
        if templates.setdefault(shape, path) != path:
            yield ("paths", path), f"is the same template as {shown(templates[shape])}"
    yield from _tag_problems(document)


def _operation_ids(path: str, item: Object, seen: dict[str, str]) -> Found:
    for method in _METHODS:
        name = (as_object(item.get(method)) or {}).get("operationId")
        if isinstance(name, str):
            place = f"{method} {path}"
            if seen.setdefault(name, place) != place:
                step = "paths", path, method, "operationId"
                yield step, f"{shown(name)} is that of {seen[name]} too"


def _tag_problems(document: Object) -> Found:
    tags = as_array(document.get("tags")) or []
    names = Counter(str((as_object(tag) or {}).get("name")) for tag in tags)
    yield from ((("tags",), f"{shown(name)} occurs twice") for name in names if names[name] > 1)


def _path_problems(path: str, item: Object, document: Object) -> Found:
    """Yield what is wrong with a path and its parameters."""
    if not path.startswith("/"):
        yield ("paths", path), "does not begin with a slash"
    wanted = _TEMPLATE.findall(path)
    for name, count in Counter(wanted).items():
        if count > 1:
            yield ("paths", path), f"has {{{name}}} twice"
    shared = _parameters(item, document)
    yield from ((("paths", path, *step), text) for step, text in _repeated(item, document))
    for method in _METHODS:
        if (operation := as_object(item.get(method))) is None:
            continue
        step = "paths", path, method
        yield from (((*step, *more), text) for more, text in _repeated(operation, document))
        there = {
            name for name, place in shared | _parameters(operation, document) if place == "path"
        }
        for name in sorted(set(wanted) - there):
            yield step, f"the parameter {{{name}}} of the path is not declared"
        for name in sorted(there - set(wanted)):
            yield step, f"the parameter {shown(name)} is not in the path"


def _listed(holder: Object, document: Object) -> Iterator[tuple[int, tuple[str, str]]]:
    for index, entry in enumerate(as_array(holder.get("parameters")) or []):
        fields = as_object(entry) or {}
        parameter = resolve(fields["$ref"], document) if "$ref" in fields else fields
        if parameter:
            yield index, (str(parameter.get("name")), str(parameter.get("in")))


def _parameters(holder: Object, document: Object) -> set[tuple[str, str]]:
    """Return name and place of the parameters of a path or an operation."""
    return {parameter for _, parameter in _listed(holder, document)}


def _repeated(holder: Object, document: Object) -> Found:
    seen: set[tuple[str, str]] = set()
    for index, parameter in _listed(holder, document):
        if parameter in seen:
            name, place = parameter
            yield ("parameters", index), f"the {place} parameter {shown(name)} occurs twice"
        seen.add(parameter)


def _document(fields: Object, _document: Object) -> Found:
    version = fields.get("openapi")
    if isinstance(version, str) and not _VERSION.fullmatch(version):
        yield ("openapi",), f"is {shown(version)}, not 3.0.x"
    yield from _security(fields, _document)


def _components(fields: Object, _document: Object) -> Found:
    for kind in COMPONENT_OF.values():
        for name in as_object(fields.get(kind)) or {}:
            if not _NAME.fullmatch(name):
                yield (kind, name), "is not made of letters, digits, '.', '-' and '_'"


def _operation(fields: Object, document: Object) -> Found:
    yield from _security(fields, document)


def _security(fields: Object, document: Object) -> Found:
    schemes = components(document, "securitySchemes")
    for index, requirement in enumerate(as_array(fields.get("security")) or []):
        for name in as_object(requirement) or {}:
            if name not in schemes:
                yield ("security", index, name), "is not among the securitySchemes"


def _responses(fields: Object, _document: Object) -> Found:
    codes = [name for name in fields if not name.startswith("x-")]
    if not codes:
        yield (), "has no response"
    for name in codes:
        if not _STATUS.fullmatch(name):
            yield (name,), "is neither a status code nor 'default'"


def _with_table(name: str) -> Rule:
    """Return the rule for what a field's value requires, and for what excludes each other."""
    key, needs = REQUIRED_WITH.get(name, ("", {}))
    pair = EXCLUSIVE.get(name, ())

    def rule(fields: Object, _document: Object) -> Found:
        value = fields.get(key)
        if isinstance(value, str):
            if value not in needs:
                yield (key,), f"is {shown(value)}, not one of {', '.join(needs)}"
            for needed in needs.get(value, ()):
                if needed not in fields:
                    yield (), f"{needed} is missing, which {key} {shown(value)} needs"
        if pair and all(one in fields for one in pair):
            yield (), f"has both {pair[0]} and {pair[1]}"

    return rule


def _parameter(fields: Object, document: Object) -> Found:
    yield from _with_table("Parameter")(fields, document)
    if fields.get("in") == "path" and fields.get("required", True) is not True:
        yield ("required",), "is not true for a parameter in the path"
    if "schema" not in fields and "content" not in fields:
        yield (), "has neither schema nor content"


def _schema(fields: Object, document: Object) -> Found:
    yield from _with_table("Schema")(fields, document)
    required = as_array(fields.get("required"))
    if required is not None and len({str(name) for name in required}) < len(required):
        yield ("required",), "names a property twice"
    for key in ("enum", "allOf", "anyOf", "oneOf"):
        if fields.get(key) == []:
            yield (key,), "is empty"
    multiple = fields.get("multipleOf")
    if isinstance(multiple, (int, float)) and multiple <= 0:
        yield ("multipleOf",), f"is {multiple}, not more than 0"


RULES: Mapping[str, Rule] = {
    **{name: _with_table(name) for name in {*REQUIRED_WITH, *EXCLUSIVE}},
    "OpenAPI": _document,
    "Components": _components,
    "Operation": _operation,
    "Responses": _responses,
    "Parameter": _parameter,
    "Schema": _schema,
}
