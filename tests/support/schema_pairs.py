"""Random pairs of structural schemas, and values that are likely to be valid under the old one."""

import copy
from random import Random
from typing import Any, cast

from json_walks import is_array
from schema_rules import rules_for
from schema_server import serve

_PATTERNS = ("^[a-z]+$", "^[a-z0-9]+$", "^a", "b$", "^(ab|cd)*$", "^.{2,4}$", "x", "^[^-]")
_TEXTS = ("", "a", "ab", "abcd", "xyz", "A-1", "0", "cdab", "b", "-", "aaaaaaaa")
_SHAPED = ("2026-11-23", "2026-13-01", "192.0.2.1", "192.0.2.256")
_LOGIC = ("allOf", "anyOf", "oneOf", "not")
_RULES = "x-kubernetes-validations"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_LIST_TYPE, _LIST_KEYS = "x-kubernetes-list-type", "x-kubernetes-list-map-keys"
_NAMES = ("a", "b", "c", "d")


def schema(random: Random, depth: int = 2) -> dict[str, Any]:
    """Return a schema that a CustomResourceDefinition may have."""
    kinds = ["string", "string", "integer", "number", "boolean", "int-or-string", "any"]
    kind = random.choice(kinds + ["object", "object", "object", "array"] * (depth > 0))
    found: dict[str, Any] = {"type": kind}
    if kind == "int-or-string":
        found = {"x-kubernetes-int-or-string": True}
        if random.random() < 0.3:
            found["anyOf"] = [{"type": "integer"}, {"type": "string"}]
        if random.random() < 0.2:
            found["pattern"] = random.choice(_PATTERNS)
    elif kind == "any":
        found = {_PRESERVE: True}
    elif kind == "object":
        _object(random, found, depth)
    elif kind == "array":
        _array(random, found, depth)
    _limits(random, found)
    if random.random() < 0.15:
        found["nullable"] = True
    _add_rules(random, found)
    if depth < 2 and random.random() < 0.25:
        _add_default(random, found)
    return found


def _array(random: Random, found: dict[str, Any], depth: int) -> None:
    found["items"] = schema(random, depth - 1)
    kind = random.random()
    if kind < 0.25 and found["items"].get("type") in ("string", "integer"):
        found[_LIST_TYPE] = "set"
        found["items"].pop("nullable", None)
        found["items"].pop("default", None)
    elif kind > 0.75 and depth > 1:
        fields: dict[str, Any] = {
            "a": {"type": "string"},
            "b": {"type": "integer"},
            "c": schema(random, 0),
        }
        found["items"] = {"type": "object", "properties": fields, "required": ["a"]}
        keys = random.choice((["a"], ["a", "b"]))
        if "b" in keys:
            _need(found["items"], "b", random)
        found[_LIST_TYPE], found[_LIST_KEYS] = "map", keys
    _bounds(random, found, "minItems", "maxItems", 0, 3)


def _need(items: dict[str, Any], key: str, random: Random) -> None:
    """Make a field required or give it a default, as keys of lists need."""
    if random.random() < 0.5:
        items["required"] = sorted({*items.get("required", ()), key})
    else:
        items["properties"][key]["default"] = 1 if key == "b" else "a"


def _branch(random: Random, of: dict[str, Any]) -> dict[str, Any]:
    """Return a branch of logic for values of a schema."""
    kind = of.get("type")
    if kind == "string":
        several: list[dict[str, Any]] = [
            {"pattern": random.choice(_PATTERNS)},
            {"enum": random.sample(_TEXTS, 3)},
            {"minLength": random.randint(1, 3)},
            {"maxLength": random.randint(0, 4)},
        ]
    elif kind in ("integer", "number"):
        limit = random.randint(-1, 5)
        several = [{"minimum": limit}, {"maximum": limit}, {"enum": random.sample(range(6), 3)}]
    elif kind == "object" and of.get("properties"):
        name = random.choice(sorted(of["properties"]))
        several = [{"required": [name]}, {"minProperties": 1}]
        inner = of["properties"][name]
        if inner.get("type") in ("string", "integer"):
            several.append({"properties": {name: _branch(random, inner)}})
            several.append({**several[-1], "required": [name]})
    elif kind == "array":
        several = [{"minItems": random.randint(1, 2)}, {"maxItems": random.randint(0, 2)}]
    else:
        return {}
    return random.choice(several)


def _add_logic(random: Random, found: dict[str, Any]) -> None:
    keyword = random.choice(_LOGIC)
    branches = [_branch(random, found) for _ in range(random.randint(1, 3))]
    if branches[0]:
        found[keyword] = branches[0] if keyword == "not" else branches


def _add_rules(random: Random, found: dict[str, Any]) -> None:
    rules = rules_for(found)
    if rules and random.random() < 0.15:
        picked = random.sample(rules, min(len(rules), random.randint(1, 2)))
        found[_RULES] = [{"rule": rule} for rule in picked]
    if random.random() < 0.12:
        _add_logic(random, found)


def _object(random: Random, found: dict[str, Any], depth: int) -> None:
    kind = random.random()
    if kind < 0.2:
        values = schema(random, depth - 1)
        found["additionalProperties"] = True if random.random() < 0.1 else values
    elif kind < 0.28:
        _resource(random, found, depth)
        return
    else:
        names = random.sample(_NAMES, random.randint(1, 3))
        found["properties"] = {name: schema(random, depth - 1) for name in names}
        if random.random() < 0.4:
            found["required"] = random.sample(names, random.randint(1, len(names)))
        if kind > 0.9:
            found[_PRESERVE] = True
        elif kind > 0.8:
            found[random.choice(("anyOf", "oneOf"))] = [{"required": [name]} for name in names]
    _bounds(random, found, "minProperties", "maxProperties", 0, 3)


def _resource(random: Random, found: dict[str, Any], depth: int) -> None:
    """Turn a schema into that of an embedded resource."""
    found[_EMBEDDED] = True
    if random.random() < 0.5:
        found[_PRESERVE] = True
    if _PRESERVE not in found or random.random() < 0.3:
        found["properties"] = {"a": schema(random, depth - 1)}
        if random.random() < 0.3:
            found["properties"]["kind"] = {"type": "string"}


def _bounds(  # noqa: PLR0913, PLR0917 - two keywords and their range
    random: Random, found: dict[str, Any], least: str, most: str, low: int, high: int
) -> None:
    if random.random() < 0.2:
        found[least] = random.randint(low, low + (high - low) // 2)
    if random.random() < 0.2:
        found[most] = random.randint(low + (high - low) // 2 + 1, high + 1)


def _limits(random: Random, found: dict[str, Any]) -> None:
    kind = found.get("type")
    if kind == "string":
        if random.random() < 0.2:
            found["enum"] = random.sample(_TEXTS, random.randint(1, 4))
        if random.random() < 0.25:
            found["pattern"] = random.choice(_PATTERNS)
        _bounds(random, found, "minLength", "maxLength", 0, 5)
        if random.random() < 0.08:
            found["format"] = random.choice(("date", "ipv4", "password", "no-such-format"))
    elif kind in ("integer", "number"):
        _bounds(random, found, "minimum", "maximum", -3, 6)
        if "minimum" in found and random.random() < 0.2:
            found["exclusiveMinimum"] = True
        if "maximum" in found and random.random() < 0.2:
            found["exclusiveMaximum"] = True
        if random.random() < 0.1:
            found["multipleOf"] = random.choice((2, 3, 4) if kind == "integer" else (0.5, 2))
        if random.random() < 0.1:
            found["enum"] = random.sample(range(6), 2)


def _add_default(random: Random, found: dict[str, Any]) -> None:
    for _ in range(3):
        value = instance(random, found, plain=True)
        treated = serve(found, value)
        if value is not None and not treated.errors and treated.value == value:
            found["default"] = value
            return


_KEYWORDS = (
    *("enum", "pattern", "minLength", "maxLength", "minimum", "maximum", "multipleOf", "format"),
    *("minItems", "maxItems", "minProperties", "maxProperties"),
)


def changed(random: Random, old: dict[str, Any], depth: int = 2) -> dict[str, Any]:
    """Return a copy of a schema with any number of changes."""
    if random.random() < 0.1:
        return schema(random, depth)
    new = copy.deepcopy(old)
    new.pop("default", None)
    other = schema(random, depth)
    same = other.get("type") == new.get("type")
    for key in _KEYWORDS:
        if random.random() < 0.12:
            new.pop(key, None)
            if same and key in other:
                new[key] = other[key]
    if random.random() < 0.1:
        new["nullable"] = not new.get("nullable")
    _change_items(random, new, depth)
    _change_fields(random, new, depth)
    _change_rules(random, new)
    _leave_out_flags(new)
    if "default" in old and random.random() < 0.7:
        treated = serve(new, old["default"])
        if not treated.errors and treated.value == old["default"] and old["default"] is not None:
            new["default"] = old["default"]
    if depth < 2 and random.random() < 0.15:
        _add_default(random, new)
    return new


def _change_items(random: Random, new: dict[str, Any], depth: int) -> None:
    if "items" not in new or depth == 0:
        return
    kind = new.get(_LIST_TYPE)
    if kind == "map":
        fields = new["items"]["properties"]
        fields["c"] = changed(random, fields["c"], 0)
        if random.random() < 0.3:
            del new[_LIST_TYPE], new[_LIST_KEYS]
        elif random.random() < 0.3:
            new[_LIST_KEYS] = random.choice((["a"], ["a", "b"]))
            if "b" in new[_LIST_KEYS] and "default" not in fields["b"]:
                _need(new["items"], "b", random)
        return
    new["items"] = items = changed(random, new["items"], depth - 1)
    if items.get("type") in ("string", "integer") and "default" not in items:
        if kind == "set" and random.random() < 0.3:
            del new[_LIST_TYPE]
        elif random.random() < 0.3:
            new[_LIST_TYPE] = "set"
    else:
        new.pop(_LIST_TYPE, None)
    if _LIST_TYPE in new:
        items.pop("nullable", None)


def _change_fields(random: Random, new: dict[str, Any], depth: int) -> None:
    if new.get("type") != "object" or depth == 0:
        return
    additional = new.get("additionalProperties")
    if isinstance(additional, dict):
        new["additionalProperties"] = changed(random, cast("dict[str, Any]", additional), depth - 1)
    fields = new.get("properties", {})
    for name in list(fields):
        if random.random() < 0.15 and len(fields) > 1:
            del fields[name]
        else:
            fields[name] = changed(random, fields[name], depth - 1)
    if fields and random.random() < 0.2:
        fields[random.choice(_NAMES)] = schema(random, depth - 1)
    if fields and random.random() < 0.15:
        new["required"] = random.sample(sorted(fields), random.randint(1, len(fields)))
    _change_flags(random, new)


def _change_flags(random: Random, new: dict[str, Any]) -> None:
    fields = new.get("properties")
    if fields and random.random() < 0.1:
        new[_PRESERVE] = not new.get(_PRESERVE)
    if (fields or new.get(_PRESERVE)) and random.random() < 0.05:
        new[_EMBEDDED] = not new.get(_EMBEDDED)


def _leave_out_flags(new: dict[str, Any]) -> None:
    """Remove flags that are false, and flags whose keyword is absent."""
    for limit, flag in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if limit not in new:
            new.pop(flag, None)
    for flag in (_PRESERVE, _EMBEDDED):
        if not new.get(flag):
            new.pop(flag, None)


def _change_rules(random: Random, new: dict[str, Any]) -> None:
    """Change rules and logic, and remove those that no longer fit the fields."""
    if random.random() < 0.15:
        new.pop(_RULES, None)
        for keyword in _LOGIC:
            new.pop(keyword, None)
    _add_rules(random, new)
    fitting = rules_for(new)
    rules = [one for one in new.get(_RULES, ()) if one["rule"] in fitting]
    new.pop(_RULES, None)
    if rules:
        new[_RULES] = rules
    for keyword in _LOGIC:
        branches: Any = new.get(keyword, [])
        several: list[dict[str, Any]] = branches if is_array(branches) else [branches]
        if not all(_fits(branch, new.get("properties", {})) for branch in several):
            del new[keyword]


def _fits(branch: dict[str, Any], fields: dict[str, Any]) -> bool:
    """Tell whether the fields that a branch of logic names exist and have a type."""
    limited: dict[str, Any] = branch.get("properties", {})
    named = {*limited, *branch.get("required", ())}
    return named <= fields.keys() and all(fields[name].get("type") for name in limited)


def instance(random: Random, of: dict[str, Any], *, plain: bool = False) -> Any:  # noqa: ANN401, C901, PLR0911
    """Return a value that is likely to be valid."""
    if not plain and random.random() < (0.3 if of.get("nullable") else 0.05):
        return None
    if "enum" in of:
        return random.choice(of["enum"])
    if of.get(_EMBEDDED):
        return _an_object(random, of, plain=plain)
    kind = of.get("type")
    if kind == "string":
        return random.choice((*_TEXTS, *_SHAPED) if "format" in of else _TEXTS)
    if kind == "integer":
        return random.randint(-4, 8)
    if kind == "number":
        return random.choice((0, 1, 2, 4, 0.5, 1.5, -2, 3.25, 6))
    if kind == "boolean":
        return random.random() < 0.5
    if kind == "array":
        size = random.randint(of.get("minItems", 0), 3)
        return [instance(random, of["items"], plain=plain) for _ in range(size)]
    if kind == "object":
        return _an_object(random, of, plain=plain)
    if of.get(_PRESERVE):
        return random.choice(({"a": 1, "z": {"y": [1]}}, [1, {"a": 2}], "x", 7, True, 0.5))
    return random.choice((3, "text", 0, "a"))


def _an_object(random: Random, of: dict[str, Any], *, plain: bool) -> dict[str, Any]:
    found = {
        name: instance(random, field, plain=plain)
        for name, field in of.get("properties", {}).items()
        if name in of.get("required", ()) or random.random() < 0.6
    }
    additional = of.get("additionalProperties")
    if additional:
        values = cast("dict[str, Any]", {_PRESERVE: True} if additional is True else additional)
        for name in random.sample(("p", "q", "r"), random.randint(0, 3)):
            found[name] = instance(random, values, plain=plain)
    if of.get(_PRESERVE):
        for name in random.sample(_NAMES, 2):
            found.setdefault(name, random.choice((1, "x", {"deep": 1}, [1, {"a": 2}], True)))
        if random.random() < 0.3:
            found.update(apiVersion="v1", kind="Part")
    if of.get(_EMBEDDED):
        found.update(apiVersion="parts/v1", kind="Part")
        if random.random() < 0.3:
            found["metadata"] = {"name": "part"}
    return found
