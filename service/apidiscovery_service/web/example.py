"""An example of a kind as a manifest, made from its schema.

It has the fields that are required, those with a default in the first levels, and a few that most
objects of Kubernetes' own types have. It is valid by the schema; validation rules in CEL are not
evaluated.
"""

from copy import deepcopy
from dataclasses import dataclass
from math import ceil, floor
from time import monotonic
from typing import Final, cast

from apidiscovery_formats import go_yaml
from apidiscovery_formats.go_json import JSONValue
from apidiscovery_formats.openapi.traversal import Object, as_list, as_object, is_object

from apidiscovery_service.web.example_text import MAX_LENGTH, matching
from apidiscovery_service.web.field_schemas import (
    Schemas,
    is_int_or_string,
    objects,
    texts,
)

MAX_VALUES: Final = 2000
"""Values of an example; a schema may ask for any number of them."""

MAX_SECONDS: Final = 1.0
"""Time for an example; strings for hostile patterns take long to find."""

_MAX_DEPTH = 24
_DEFAULTS_DEPTH = 2  # of fields with defaults that are not required: those of the spec
_LEFT_OUT = frozenset({"status"})
_NAME = "example"

# What most objects have though it is not required: the names of fields by those of types.
# Source: the manifests of https://kubernetes.io/docs/concepts/.
_COMMON = {
    "io.k8s.api.apps.v1.DaemonSetSpec": ("selector", "template"),
    "io.k8s.api.apps.v1.DeploymentSpec": ("replicas", "selector", "template"),
    "io.k8s.api.apps.v1.ReplicaSetSpec": ("replicas", "selector", "template"),
    "io.k8s.api.apps.v1.StatefulSetSpec": ("replicas", "selector", "serviceName", "template"),
    "io.k8s.api.batch.v1.JobSpec": ("template",),
    "io.k8s.api.core.v1.ConfigMap": ("data",),
    "io.k8s.api.core.v1.Container": ("image",),
    "io.k8s.api.core.v1.PodTemplateSpec": ("metadata", "spec"),
    "io.k8s.api.core.v1.Secret": ("stringData",),
    "io.k8s.api.core.v1.ServiceSpec": ("ports", "selector"),
    "io.k8s.api.networking.v1.NetworkPolicySpec": ("podSelector",),
}
# Values of types whose schema says less than API servers ask for.
_LABELS: Object = {"app": _NAME}
_TYPES: dict[str, object] = {
    "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector": {"matchLabels": _LABELS},
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {"labels": _LABELS},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "1",
}
_JOBS = frozenset({"io.k8s.api.batch.v1.JobSpec"})


class NoExample(Exception):
    """No example can be made; the text says why."""


@dataclass(frozen=True, slots=True)
class Named:
    """What an example is of."""

    api_version: str
    kind: str
    is_namespaced: bool


def manifest(schemas: Schemas, root: Object, named: Named) -> str:
    """Return an example as YAML.

    Raises:
        NoExample: The schema asks for more than an example can have.
    """
    return go_yaml.text(cast("JSONValue", example(schemas, root, named)))


def example(schemas: Schemas, root: Object, named: Named) -> Object:
    """Return an example as JSON values.

    Raises:
        NoExample: As `manifest`.
    """
    whole = schemas.whole(root)
    maker = _Maker(schemas)
    properties = as_object(whole.get("properties"))
    metadata: Object = {"name": _NAME}
    if named.is_namespaced:
        metadata["namespace"] = "default"
    result: Object = {"apiVersion": named.api_version, "kind": named.kind, "metadata": metadata}
    wanted = _with_choices(schemas, whole)
    required = texts(wanted.get("required"))
    shown = [name for name in properties if name in required or name == "spec"]
    for name in (*shown, *_COMMON.get(schemas.name_of(root), ())):
        if name not in result and (name not in _LEFT_OUT or name in required):
            schema = as_object(properties.get(name))
            result[name] = maker.value(schema, 1)
    return result


class _Maker:
    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._left = MAX_VALUES
        self._until = monotonic() + MAX_SECONDS

    def value(self, schema: Object, depth: int) -> object:
        """Return a value that a schema allows."""
        self._left -= 1
        if self._left < 0:
            raise NoExample(f"the schema asks for more than {MAX_VALUES:,} values")
        if monotonic() > self._until:
            raise NoExample("texts for the patterns of the schema take too long to find")
        name = self._schemas.name_of(schema)
        if name in _TYPES:
            return deepcopy(_TYPES[name])  # YAML would write one object twice as an alias
        whole = _with_choices(self._schemas, self._schemas.whole(schema))
        default = whole.get("default")
        if _is_shown(default):
            return default
        if values := as_list(whole.get("enum")):
            return next((each for each in values if each not in ("", None)), values[0])
        return self._typed(whole, name, depth)

    def _typed(self, whole: Object, name: str, depth: int) -> object:
        match "int-or-string" if is_int_or_string(whole) else whole.get("type"):
            case "string":
                return text(whole)
            case "integer" | "int-or-string":
                return number(whole, 1)
            case "number":
                return number(whole, 0)
            case "boolean":
                return True
            case "array":
                return self._items(whole, depth)
            case _:
                return self._object(whole, name, depth)

    def _items(self, whole: Object, depth: int) -> list[object]:
        schema = as_object(whole.get("items"))
        most = _count(whole, "maxItems", MAX_VALUES)
        count = min(max(1, _count(whole, "minItems", 0)), most)
        if depth > _MAX_DEPTH:
            return []
        items = [self.value(schema, depth + 1) for _ in range(min(count, self._left + 1))]
        return _distinct(items, self._schemas.whole(schema), whole)

    def _object(self, whole: Object, name: str, depth: int) -> Object:
        properties = as_object(whole.get("properties"))
        required = texts(whole.get("required"))
        if depth > _MAX_DEPTH:
            return {}
        common = _COMMON.get(name, ())
        result: Object = {}
        for key in properties:
            schema = as_object(properties[key])
            if key in required or key in common or self._has_default(schema, depth):
                result[key] = self.value(schema, depth + 1)
        if name in _JOBS and isinstance(template := result.get("template"), dict):
            template["spec"]["restartPolicy"] = "Never"  # the default of pods is refused in jobs
        for key in required:
            result.setdefault(key, self._extra(whole, depth))
        self._fill(result, whole, properties, depth)
        return result

    def _has_default(self, schema: Object, depth: int) -> bool:
        return depth <= _DEFAULTS_DEPTH and _is_shown(self._schemas.whole(schema).get("default"))

    def _fill(self, result: Object, whole: Object, properties: Object, depth: int) -> None:
        """Add fields until there are as many as the schema asks for."""
        least = min(_count(whole, "minProperties", 0), MAX_VALUES + 1)
        for key in properties:
            if len(result) >= least:
                return
            if key not in result:
                result[key] = self.value(as_object(properties[key]), depth + 1)
        is_map = is_object(whole.get("additionalProperties"))
        if is_map and not result and not properties:
            least = max(least, 1)
        for place in range(len(result), least):
            result[_NAME if place == 0 else f"{_NAME}-{place + 1}"] = self._extra(whole, depth)

    def _extra(self, whole: Object, depth: int) -> object:
        schema = whole.get("additionalProperties")
        return self.value(schema, depth + 1) if is_object(schema) else _NAME


def number(whole: Object, wanted: int) -> int | float:
    """Return a number within the bounds of a schema, `wanted` where it is."""
    low, high = _bound(whole, "minimum"), _bound(whole, "maximum")
    step = _bound(whole, "multipleOf") or 1
    is_integer = whole.get("type") != "number"
    found: float = wanted
    if low is not None and found <= low:
        found = low if whole.get("exclusiveMinimum") is not True else low + step
    if high is not None and found >= high:
        found = high if whole.get("exclusiveMaximum") is not True else high - step
        if low is not None and found < low:
            return (low + high) / 2
    if "multipleOf" in whole:
        found = ceil(found / step) * step
        found = found if high is None or found <= high else floor(high / step) * step
    return int(found) if is_integer or float(found).is_integer() else found


def text(whole: Object) -> str:
    """Return a string that the pattern, the length and the format of a schema allow.

    Raises:
        NoExample: None was found.
    """
    places = (whole, *objects(whole.get("allOf")))
    patterns = [found for each in places if isinstance(found := each.get("pattern"), str)]
    least, most = _count(whole, "minLength", 0), _count(whole, "maxLength", MAX_LENGTH)
    found = matching(patterns, str(whole.get("format", "")), least, most)
    if found is None:
        wanted = f"pattern {patterns[0]!r}" if patterns else f"length of at least {least:,}"
        raise NoExample(f"no text with the {wanted} was found")
    return found


def _with_choices(schemas: Schemas, whole: Object) -> Object:
    """Return a schema with the first alternative of `oneOf` and `anyOf` that asks for fields."""
    for key in ("anyOf", "oneOf"):
        if is_int_or_string(whole):
            continue
        for choice in objects(whole.get(key))[:1]:
            rest = {name: value for name, value in whole.items() if name != key}
            whole = schemas.whole({"allOf": [rest, choice]})
    return whole


def _is_shown(default: object) -> bool:
    """Return whether a default is shown: Kubernetes' own types have empty ones."""
    return default is not None and default != "" and not isinstance(default, dict | list)


def _distinct(items: list[object], schema: Object, whole: Object) -> list[object]:
    """Return items that differ from each other where they must and can."""
    is_set = whole.get("uniqueItems") is True or whole.get("x-kubernetes-list-type") == "set"
    if len(items) < 2 or not is_set:  # noqa: PLR2004 - two items can be equal
        return items
    values = as_list(schema.get("enum"))
    if values:
        return list(values[: len(items)])
    return [
        f"{item}-{place + 1}" if place and isinstance(item, str) else item
        for place, item in enumerate(items)
    ]


def _count(whole: Object, key: str, default: int) -> int:
    value = whole.get(key)
    return value if isinstance(value, int) else default


def _bound(whole: Object, key: str) -> int | float | None:
    value = whole.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
