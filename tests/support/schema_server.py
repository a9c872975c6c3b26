"""A small model of how an API server treats a field: prune, default, validate.

It is written from Kubernetes' sources and from answers of a real server (schema_trials.py), and
shares no code with the library under test. It knows the CEL rules of schema_rules.py and two
formats.
"""

import datetime as dt
import ipaddress
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, cast

from json_walks import is_array, is_object
from schema_rules import holds, is_evaluated
from schema_trials import outcome

_EMBEDDED = "x-kubernetes-embedded-resource"
_LIST_TYPE = "x-kubernetes-list-type"
_OF_RESOURCES = ("apiVersion", "kind", "metadata")


@dataclass(frozen=True, slots=True)
class Treated:
    """A value as the server keeps it.

    Attributes:
        errors: Paths of invalid values; items are `[]`, values of maps `{}`.
    """

    value: Any
    errors: tuple[str, ...]


def serve(schema: dict[str, Any], value: Any) -> Treated:  # noqa: ANN401 - JSON
    """Return a value as the server keeps it."""
    kept = json.loads(json.dumps(value))
    _default(schema, kept)
    _drop_nulls(schema, kept)
    _prune(schema, kept)
    errors = list[str]()
    _check(schema, kept, "", errors)
    if not errors:
        _check_rules(schema, kept, "", errors)
    return Treated(kept, tuple(errors))


def _inner(schema: dict[str, Any], key: str) -> dict[str, Any] | None:
    properties = schema.get("properties", {})
    if key in properties:
        return cast("dict[str, Any]", properties[key])
    additional = schema.get("additionalProperties")
    if additional is True:
        return {"nullable": True}  # the value is kept, its fields are not
    return additional if is_object(additional) else None


def _default(schema: dict[str, Any], value: Any) -> None:  # noqa: ANN401 - JSON
    if is_object(value):
        for key, field in schema.get("properties", {}).items():
            if "default" in field and (
                key not in value or (value[key] is None and not field.get("nullable"))
            ):
                value[key] = json.loads(json.dumps(field["default"]))
        for key in value:
            inner = _inner(schema, key)
            if inner is None:
                continue
            if value[key] is None and not inner.get("nullable") and "default" in inner:
                value[key] = json.loads(json.dumps(inner["default"]))
            _default(inner, value[key])
    elif is_array(value) and "items" in schema:
        items = schema["items"]
        for at, one in enumerate(value):
            if one is None and not items.get("nullable") and "default" in items:
                value[at] = json.loads(json.dumps(items["default"]))
            _default(items, value[at])


def _drop_nulls(schema: dict[str, Any], value: Any) -> None:  # noqa: ANN401 - JSON
    if is_object(value):
        for key in list(value):
            inner = _inner(schema, key)
            if inner is None:
                continue
            if value[key] is None and not inner.get("nullable") and "default" not in inner:
                del value[key]
            else:
                _drop_nulls(inner, value[key])
    elif is_array(value) and "items" in schema:
        for one in value:
            _drop_nulls(schema["items"], one)


def _prune(schema: dict[str, Any] | None, value: Any) -> None:  # noqa: ANN401 - JSON
    keeps = schema is not None and schema.get("x-kubernetes-preserve-unknown-fields")
    if is_object(value):
        for key in list(value):
            inner = None if schema is None else _inner(schema, key)
            if inner is not None:
                _prune(inner, value[key])
            elif schema and schema.get(_EMBEDDED) and key in _OF_RESOURCES:
                continue
            elif not keeps:
                del value[key]
    elif is_array(value):
        items = None if schema is None else schema.get("items")
        if items is not None or not keeps:
            for one in value:
                _prune(items, one)


def _has_type(schema: dict[str, Any], value: Any) -> bool:  # noqa: ANN401 - JSON
    if value is None:
        typed = "type" in schema or "x-kubernetes-int-or-string" in schema
        return bool(schema.get("nullable")) or not typed
    if schema.get("x-kubernetes-int-or-string"):
        return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))
    number = isinstance(value, int | float) and not isinstance(value, bool)
    tests = {
        "string": isinstance(value, str),
        "boolean": isinstance(value, bool),
        "object": is_object(value),
        "array": is_array(value),
        "number": number,
        "integer": number and float(value).is_integer(),
    }
    return tests.get(schema.get("type", ""), True)


def _as_python(pattern: str) -> str:
    """Return a pattern whose `$` is Go's: the end, and not before a newline."""

    def told(found: re.Match[str]) -> str:
        return r"\Z" if found.group() == "$" else found.group()

    return re.sub(r"\[(?:\\.|[^\]\\])*\]|\\.|\$", told, pattern)


def _is_one_of(value: Any, enum: list[Any]) -> bool:  # noqa: ANN401 - JSON
    """Tell whether a value is in an enum, after conversion to its types; null never is."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 0x110000:
        return value in enum or chr(value) in enum
    return value is not None and (value in enum or (type(value) is float and int(value) in enum))


def _meets(schema: dict[str, Any], value: Any, *, is_new: bool = True) -> bool:  # noqa: ANN401, C901, PLR0911
    """Tell whether a value is within the bounds of a schema."""
    if "enum" in schema and not _is_one_of(value, schema["enum"]):
        return False
    if isinstance(value, str):
        if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 10**9):
            return False
        pattern = schema.get("pattern")
        if pattern is not None and not re.search(_as_python(pattern), value):
            return False
        return _has_format(schema.get("format", ""), value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        low, high = schema.get("minimum", -(10**30)), schema.get("maximum", 10**30)
        if (schema.get("exclusiveMinimum") and value == low) or not low <= value <= high:
            return False
        if schema.get("exclusiveMaximum") and value == high:
            return False
        step = schema.get("multipleOf")
        if step and isinstance(value, int):
            return int(step) > 0 and value % int(step) == 0
        return not step or Decimal(str(value)) % Decimal(str(step)) == 0
    if is_array(value):
        texts = [json.dumps(one, sort_keys=True) for one in value]
        kind = schema.get(_LIST_TYPE)
        if kind == "map":
            keys = schema["x-kubernetes-list-map-keys"]
            texts = [json.dumps([one.get(key) for key in keys]) for one in value if is_object(one)]
        if is_new and kind in ("set", "map") and len(set(texts)) < len(texts):
            return False
        return bool(schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 10**9))
    if is_object(value):
        most = schema.get("maxProperties", 10**9)
        return bool(schema.get("minProperties", 0) <= len(value) <= most)
    return True


def _has_format(name: str, value: str) -> bool:
    try:
        if name == "date":
            dt.datetime.strptime(value, "%Y-%m-%d").replace(tzinfo=dt.UTC)
        elif name == "ipv4":
            ipaddress.IPv4Address(value)
    except ValueError:
        return False
    return True


def _check_rules(  # noqa: PLR0913 - a walk
    schema: dict[str, Any],
    value: Any,  # noqa: ANN401 - JSON
    path: str,
    errors: list[str],
    *,
    is_update: bool = False,
    is_compared: bool = True,
    is_whole: bool = False,
) -> None:
    """Add the paths of values that break a CEL rule.

    In a list that is compared as a whole a false rule is tolerated, but not an error.
    """
    if value is None or not _has_type(schema, value):
        return
    rules = [one["rule"] for one in schema.get("x-kubernetes-validations", ())]
    tolerated = is_update and (is_whole or (is_compared and _is_equal(schema, value)))
    if not all(is_evaluated(rule, value) and (tolerated or holds(rule, value)) for rule in rules):
        errors.append(path)
    is_compared = is_compared and not (is_array(value) and _has_duplicates(schema, value))
    atomic = is_compared and is_array(value) and schema.get(_LIST_TYPE) != "map"
    for inner, one, at in _inner_values(schema, value, path):
        _check_rules(
            inner,
            one,
            at,
            errors,
            is_update=is_update,
            is_compared=is_compared,
            is_whole=is_whole or atomic,
        )


def _own_errors(
    schema: dict[str, Any],
    value: Any,  # noqa: ANN401 - JSON
    path: str,
    *,
    is_new: bool = True,
) -> list[str]:
    """Return the paths of errors of a value itself, without those of its fields and items."""
    if not _has_type(schema, value):
        return [path]
    if value is None and "enum" not in schema:
        return []
    errors = [] if _meets(schema, value, is_new=is_new) and _meets_logic(schema, value) else [path]
    if is_object(value):
        errors += [f"{path}.{key}" for key in schema.get("required", ()) if key not in value]
    return errors


def _inner_values(
    schema: dict[str, Any],
    value: Any,  # noqa: ANN401 - JSON
    path: str,
) -> Iterator[tuple[dict[str, Any], Any, str]]:
    """Yield the fields or items of a value that a schema describes, each with its path."""
    if is_object(value):
        for key, one in value.items():
            inner = _inner(schema, key)
            if inner is not None:
                named = key in schema.get("properties", {})
                yield inner, one, f"{path}.{key}" if named else path + "{}"
    elif is_array(value) and "items" in schema:
        for one in value:
            yield schema["items"], one, path + "[]"


def _check(schema: dict[str, Any], value: Any, path: str, errors: list[str]) -> None:  # noqa: ANN401
    found = _own_errors(schema, value, path)
    errors.extend(found)
    errors.extend(_of_resource(schema, value, path))
    if path not in found or _has_type(schema, value):
        for inner, one, at in _inner_values(schema, value, path):
            _check(inner, one, at, errors)


def _of_resource(schema: dict[str, Any], value: Any, path: str) -> list[str]:  # noqa: ANN401 - JSON
    wanted = ("apiVersion", "kind") if schema.get(_EMBEDDED) and is_object(value) else ()
    return [f"{path}.{key}" for key in wanted if key not in value]


def stored_errors(schema: dict[str, Any], value: Any) -> tuple[str, ...] | None:  # noqa: ANN401
    """Return the errors of an update of other fields; None where CEL cannot read a value.

    Args:
        schema: The schema at the time of the update.
        value: The stored value, as `serve` keeps it with this schema.
    """
    errors = list[str]()
    _check_update(schema, value, "", errors, is_compared=True)
    if errors:
        return tuple(errors)
    if _has_rule_over_another_type(schema, value):
        return None
    _check_rules(schema, value, "", errors, is_update=True)
    return tuple(errors)


def _check_update(
    schema: dict[str, Any],
    value: Any,  # noqa: ANN401 - JSON
    path: str,
    errors: list[str],
    *,
    is_compared: bool,
) -> None:
    if not (is_compared and _is_equal(schema, value)):
        # Items that were not unique before are tolerated apart from the rest.
        errors.extend(_own_errors(schema, value, path, is_new=False))
    errors.extend(_of_resource(schema, value, path))
    is_compared = is_compared and not (is_array(value) and _has_duplicates(schema, value))
    atomic = is_array(value) and schema.get(_LIST_TYPE) != "map"
    for inner, one, at in _inner_values(schema, value, path):
        if atomic and is_compared:
            for found in _resources(inner, one, at):
                errors.extend(found)
        else:
            _check_update(inner, one, at, errors, is_compared=is_compared)


def _resources(schema: dict[str, Any], value: Any, path: str) -> Iterator[list[str]]:  # noqa: ANN401
    yield _of_resource(schema, value, path)
    for inner, one, at in _inner_values(schema, value, path):
        yield from _resources(inner, one, at)


def _has_duplicates(schema: dict[str, Any], value: list[Any]) -> bool:
    keys = schema.get("x-kubernetes-list-map-keys", ())
    texts = [json.dumps([one.get(key) for key in keys]) for one in value if is_object(one)]
    missing = any(key not in one for key in keys for one in value if is_object(one))
    return schema.get(_LIST_TYPE) == "map" and (missing or len(set(texts)) < len(texts))


def _is_equal(schema: dict[str, Any], value: Any) -> bool:  # noqa: ANN401 - JSON
    """Tell whether the server takes a value for unchanged; it does not where a field is unknown."""
    if is_object(value):
        fields = [(_inner(schema, key), one) for key, one in value.items()]
        if schema.get("additionalProperties") is True:
            named = schema.get("properties", {})
            fields = [(named.get(key), one) for key, one in value.items()]
        return all(inner is not None and _is_equal(inner, one) for inner, one in fields)
    if is_array(value) and schema.get(_LIST_TYPE) == "map":
        if _has_duplicates(schema, value):
            return False
        return all(_is_equal(schema["items"], one) for one in value)
    return True


def _has_rule_over_another_type(schema: dict[str, Any], value: Any) -> bool:  # noqa: ANN401 - JSON
    """Tell whether a rule may read a value of a wrong type, at it or below it."""
    several = list(_inner_values(schema, value, ""))
    if "x-kubernetes-validations" in schema and _has_wrong_type(schema, value):
        return True
    return any(_has_rule_over_another_type(inner, one) for inner, one, _ in several)


def _has_wrong_type(schema: dict[str, Any], value: Any) -> bool:  # noqa: ANN401 - JSON
    if isinstance(value, str) and not _has_format(schema.get("format", ""), value):
        return True  # CEL reads dates
    return not _has_type(schema, value) or any(
        _has_wrong_type(inner, one) for inner, one, _ in _inner_values(schema, value, "")
    )


def _meets_logic(schema: dict[str, Any], value: Any) -> bool:  # noqa: ANN401 - JSON
    def told(branch: dict[str, Any]) -> bool:
        errors = list[str]()
        _check(branch, value, "", errors)
        return not errors

    if not all(told(one) for one in schema.get("allOf", ())):
        return False
    if "anyOf" in schema and not any(told(one) for one in schema["anyOf"]):
        return False
    if "oneOf" in schema and sum(told(one) for one in schema["oneOf"]) != 1:
        return False
    return "not" not in schema or not told(schema["not"])


def differences(
    schema: dict[str, Any],
    before: Any,  # noqa: ANN401 - JSON
    after: Any,  # noqa: ANN401 - JSON
    sent: Any,  # noqa: ANN401 - JSON
) -> dict[str, str]:
    """Return the outcome of changed parts, by path: `pruned` if it was sent, else `defaulted`."""
    found = dict[str, str]()
    _differ(schema, (before, after, sent), "", found)
    return found


def _differ(
    schema: dict[str, Any], values: tuple[Any, Any, Any], path: str, found: dict[str, str]
) -> None:
    before, after, sent = values
    if is_object(before) and is_object(after):
        for key in {**before, **after}:
            named = key in schema.get("properties", {}) or not schema.get("additionalProperties")
            at = f"{path}.{key}" if named else path + "{}"
            inner = sent.get(key) if is_object(sent) else None
            if key not in after:
                lost = is_object(sent) and key in sent
                lost = lost and (inner is not None or before[key] is None)
                found[at] = "pruned" if lost else "defaulted"
            elif key in before:
                _differ(_inner(schema, key) or {}, (before[key], after[key], inner), at, found)
            elif after[key] is not None:  # a null that was dropped is kept now
                found[at] = "defaulted"
    elif is_array(before) and is_array(after) and len(before) == len(after):
        sents = sent if is_array(sent) else [None] * len(before)
        for several in zip(before, after, sents, strict=True):
            _differ(schema.get("items", {}), several, path + "[]", found)
    elif outcome(before, after, sent) != "fine":
        found[path] = "defaulted"
