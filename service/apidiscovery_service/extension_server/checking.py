"""Validates declared groups, field by field."""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias, TypeGuard, TypeVar, cast

import orjson

from apidiscovery_service.errors import FieldViolation, InvalidFields
from apidiscovery_service.extension_server.groups import (
    ApiGroup,
    ApiResource,
    ApiSubresource,
    ApiVersion,
)
from apidiscovery_service.extension_server.models import Model, is_model, structural_schema
from apidiscovery_service.kube.objects.formats import dns1035_label, dns_subdomain
from apidiscovery_service.openapi.crd import structural

Found: TypeAlias = Iterator[FieldViolation]

T = TypeVar("T", ApiGroup, ApiVersion, ApiResource)

# Problems reported for one schema.
_MAX_SCHEMA_PROBLEMS = 20
_MAX_PRIORITY = 2**31 - 1  # both are int32
_KIND = re.compile(r"[A-Z][A-Za-z0-9]*")
_CHECK = re.compile(r"[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*")
_VERB = re.compile(r"[a-z]+")
# Those of kube-apiserver: k8s.io/apiserver pkg/endpoints/installer.go. Others may be custom.
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_MISSPELT = 0.75  # `lits`, `watc`; not `set`, `use`, `bind`, `approve`
_SUBRESOURCE = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?(/[a-z]([-a-z0-9]*[a-z0-9])?)*")


def violations(groups: object) -> list[FieldViolation]:
    """Return all errors of groups, in order."""
    return list(_several(groups, "groups", ApiGroup, _group, lambda group: group.name))


def mapping_violations(value: object, path: str) -> list[FieldViolation]:
    """Return the error of a value that must be a mapping; empty if it is one."""
    if isinstance(value, Mapping):
        return []
    return [FieldViolation(path, f"want a mapping, not {_shown(value)}")]


def site_violations(address: object, version: object, checks: object) -> Found:
    """Yield the errors of the arguments about the server itself."""
    for value, path in ((address, "server_address"), (version, "version")):
        if not isinstance(value, str):
            yield FieldViolation(path, f"want text, not {_shown(value)}")
        elif not value.isprintable() or " " in value:
            yield FieldViolation(path, f"{value!r}: want no white space or control characters")
    yield from mapping_violations(checks, "checks")
    if isinstance(checks, Mapping):
        for name, probe in cast("Mapping[object, object]", checks).items():
            place = f"checks[{name!r}]"
            if not isinstance(name, str) or not _CHECK.fullmatch(name) or name == "ping":
                wanted = "letters, digits, - and _ for a path, except ping, which is reserved"
                yield FieldViolation(place, f"want a name of {wanted}")
            if not callable(probe):
                yield FieldViolation(place, f"want a callable, not {_shown(probe)}")


def _several(
    items: object,
    path: str,
    wanted: type[T],
    check: Callable[[T, str], Found],
    name: Callable[[T], object],
) -> Found:
    """Check a list of declarations: each of them, and that their names are unique."""
    if not _is_list(items):
        yield FieldViolation(path, f"want a list of {wanted.__name__}, not {_shown(items)}")
        return
    seen: set[str] = set()
    for number, item in enumerate(items):
        place = f"{path}[{number}]"
        if not isinstance(item, wanted):
            yield FieldViolation(place, f"want {wanted.__name__}, not {_shown(item)}")
            continue
        yield from check(item, place)
        called = repr(name(item))
        if called in seen:
            yield FieldViolation(place, f"{called} is there already")
        seen.add(called)


def _group(group: ApiGroup, path: str) -> Found:
    if group.name == "":
        yield FieldViolation(f"{path}.name", "is empty; the core group is kube-apiserver's")
    else:
        yield from _text(group.name, f"{path}.name", dns_subdomain)
    yield from _priority(group.priority, f"{path}.priority")
    if _is_list(group.versions) and not group.versions:
        yield FieldViolation(f"{path}.versions", "want at least one version")
    yield from _several(
        group.versions, f"{path}.versions", ApiVersion, _version, lambda version: version.name
    )


def _version(version: ApiVersion, path: str) -> Found:
    yield from _text(version.name, f"{path}.name", dns1035_label)
    yield from _priority(version.priority, f"{path}.priority")
    yield from _several(
        version.resources, f"{path}.resources", ApiResource, _resource, lambda one: one.plural
    )


def _resource(resource: ApiResource, path: str) -> Found:
    yield from _text(resource.plural, f"{path}.plural", dns1035_label)
    yield from _text(resource.kind, f"{path}.kind", _kind)
    if resource.singular is not None:
        yield from _text(resource.singular, f"{path}.singular", dns1035_label)
    if resource.list_kind is not None:
        yield from _text(resource.list_kind, f"{path}.list_kind", _kind)
    if resource.storage_version != "":
        yield from _text(resource.storage_version, f"{path}.storage_version", dns1035_label)
    yield from _flag(resource.namespaced, f"{path}.namespaced")
    yield from _texts(resource.verbs, f"{path}.verbs", _verb)
    yield from _texts(resource.short_names, f"{path}.short_names", dns1035_label)
    yield from _texts(resource.categories, f"{path}.categories", dns1035_label)
    yield from _subresources(resource.subresources, f"{path}.subresources")
    yield from _schema(resource.schema, f"{path}.schema")


def _subresources(items: object, path: str) -> Found:
    if not _is_list(items):
        yield FieldViolation(path, f"want a list, not {_shown(items)}")
        return
    seen: set[str] = set()
    for number, item in enumerate(items):
        place = f"{path}[{number}]"
        if isinstance(item, ApiSubresource):
            yield from _subresource(item, place)
            name: object = item.name
        else:
            yield from _text(item, place, _subresource_name)
            name = item
        if isinstance(name, str):
            if name in seen:
                yield FieldViolation(place, f"{name!r} is there already")
            seen.add(name)


def _subresource(one: ApiSubresource, path: str) -> Found:
    yield from _text(one.name, f"{path}.name", _subresource_name)
    if one.kind != "":
        yield from _text(one.kind, f"{path}.kind", _kind)
    yield from _texts(one.verbs, f"{path}.verbs", _verb)
    if one.group != "":
        yield from _text(one.group, f"{path}.group", dns_subdomain)
    if one.version != "":
        yield from _text(one.version, f"{path}.version", dns1035_label)
    if one.group and not one.version:
        yield FieldViolation(f"{path}.version", f"want the version of group {one.group!r} too")


def _schema(schema: object, path: str) -> Found:
    """Check a schema as Kubernetes checks that of a CustomResourceDefinition, but without null.

    Kubernetes takes null as absent; in a declaration it is most likely a forgotten variable.
    """
    if schema is None:
        return
    if is_model(schema):
        model = schema
        try:
            schema = structural_schema(model)
        except InvalidFields as invalid:
            yield from (_of_model(one, model, path) for one in invalid.violations)
            return
    if not isinstance(schema, Mapping):
        wanted = "want a JSON schema as a mapping, or a Pydantic model"
        yield FieldViolation(path, f"{wanted}, not {_shown(schema)}")
        return
    try:
        value: object = orjson.loads(orjson.dumps(dict(cast("Mapping[object, object]", schema))))
    except (TypeError, ValueError) as error:
        yield FieldViolation(path, f"is not JSON: {error}")
        return
    problems = structural.violations(value, takes_null=False)
    for place, message in islice(problems, _MAX_SCHEMA_PROBLEMS):
        # The first step belongs to the path as any other: `schema.properties[spec].type`.
        inside = structural.field_path(("schema", *place)).removeprefix("schema")
        yield FieldViolation(f"{path}{inside}", message)


def _of_model(violation: FieldViolation, model: Model, path: str) -> FieldViolation:
    """Return the error of a field of a model, such as `Widget.spec.size: is a union of ...`."""
    name = getattr(model, "__name__", "")
    place = f"{name}.{violation.field}" if violation.field else name
    return FieldViolation(path, f"{place}: {violation.message}")


def _text(value: object, path: str, wrong: Callable[[str], Iterable[str]]) -> Found:
    if not isinstance(value, str):
        yield FieldViolation(path, f"want text, not {_shown(value)}")
        return
    for message in wrong(value):
        yield FieldViolation(path, f"{value!r}: {message}")


def _texts(values: object, path: str, wrong: Callable[[str], Iterable[str]]) -> Found:
    if not _is_list(values):
        yield FieldViolation(path, f"want a list of texts, not {_shown(values)}")
        return
    for number, value in enumerate(values):
        yield from _text(value, f"{path}[{number}]", wrong)
        if value in values[:number]:
            yield FieldViolation(f"{path}[{number}]", f"{value!r} is there already")


def _priority(value: object, path: str) -> Found:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= _MAX_PRIORITY:
        yield FieldViolation(path, f"want a number from 1 to {_MAX_PRIORITY}, not {value!r}")


def _flag(value: object, path: str) -> Found:
    if not isinstance(value, bool):
        yield FieldViolation(path, f"want True or False, not {_shown(value)}")


def _kind(text: str) -> list[str]:
    wanted = "want a kind in letters and digits that begins with a capital, such as 'Widget'"
    return [] if _KIND.fullmatch(text) else [wanted]


def _verb(text: str) -> list[str]:
    """Return what is wrong with a verb; a custom one is right unless it looks misspelt."""
    if not _VERB.fullmatch(text):
        return ["want a verb in lower case, such as 'get' or 'list'"]
    if text in _VERBS:
        return []
    close = [known for known in _VERBS if sorted(known) == sorted(text)]
    close += difflib.get_close_matches(text, _VERBS, 1, _MISSPELT)
    return [f"no verb of Kubernetes; did you mean {close[0]!r}?"] if close else []


def _subresource_name(text: str) -> list[str]:
    wanted = "want a name in lower case, such as 'status' or 'restart'"
    return [] if _SUBRESOURCE.fullmatch(text) else [wanted]


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    """Return whether a value is a list; text is none, though it is a sequence."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{type(value).__name__} {text[:60]}..."  # noqa: PLR2004
