"""Random pairs of structural schemas, and values that are mostly valid under the old one."""

import copy
from random import Random
from typing import Any

from schema_server import serve

_PATTERNS = ("^[a-z]+$", "^[a-z0-9]+$", "^a", "b$", "^(ab|cd)*$", "^.{2,4}$", "x", "^[^-]")
_TEXTS = ("", "a", "ab", "abcd", "xyz", "A-1", "0", "cdab", "b", "-", "aaaaaaaa")
_NAMES = ("a", "b", "c", "d")


def schema(random: Random, depth: int = 2) -> dict[str, Any]:
    """Return a schema that a CustomResourceDefinition may have."""
    kinds = ["string", "string", "integer", "number", "boolean", "int-or-string"]
    kind = random.choice(kinds + ["object", "object", "array"] * (depth > 0))
    found: dict[str, Any] = {"type": kind}
    if kind == "int-or-string":
        found = {"x-kubernetes-int-or-string": True}
    elif kind == "object":
        _object(random, found, depth)
    elif kind == "array":
        found["items"] = schema(random, depth - 1)
        if random.random() < 0.3 and found["items"].get("type") in ("string", "integer"):
            found["x-kubernetes-list-type"] = "set"
            found["items"].pop("nullable", None)
            found["items"].pop("default", None)
        _bounds(random, found, "minItems", "maxItems", 0, 3)
    _limits(random, found)
    if random.random() < 0.15:
        found["nullable"] = True
    if depth < 2 and random.random() < 0.25:
        _add_default(random, found)
    return found


def _object(random: Random, found: dict[str, Any], depth: int) -> None:
    kind = random.random()
    if kind < 0.2:
        found["additionalProperties"] = schema(random, depth - 1)
    else:
        names = random.sample(_NAMES, random.randint(1, 3))
        found["properties"] = {name: schema(random, depth - 1) for name in names}
        if random.random() < 0.4:
            found["required"] = random.sample(names, random.randint(1, len(names)))
        if kind > 0.9:
            found["x-kubernetes-preserve-unknown-fields"] = True
        elif kind > 0.8:
            found[random.choice(("anyOf", "oneOf"))] = [{"required": [name]} for name in names]
    _bounds(random, found, "minProperties", "maxProperties", 0, 3)


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
    elif kind in ("integer", "number"):
        _bounds(random, found, "minimum", "maximum", -3, 6)
        if "minimum" in found and random.random() < 0.2:
            found["exclusiveMinimum"] = True
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


def changed(  # noqa: C901, PLR0912 - a list of changes
    random: Random, old: dict[str, Any], depth: int = 2
) -> dict[str, Any]:
    """Return a schema like another one, with a change or several or none."""
    if random.random() < 0.12:
        return schema(random, depth)
    new = copy.deepcopy(old)
    other = schema(random, depth)
    same = other.get("type") == new.get("type")
    for key in ("enum", "pattern", "minLength", "maxLength", "minimum", "maximum", "multipleOf"):
        if random.random() < 0.15:
            new.pop(key, None)
            if same and key in other:
                new[key] = other[key]
    for key in ("minItems", "maxItems", "minProperties", "maxProperties", "required", "oneOf"):
        if random.random() < 0.15:
            new.pop(key, None)
            if same and key in other and "properties" in new:
                new[key] = other[key]
    if "minimum" not in new:
        new.pop("exclusiveMinimum", None)
    if random.random() < 0.1:
        new["nullable"] = not new.get("nullable")
    new.pop("default", None)
    if "items" in new and depth > 0:
        new["items"] = changed(random, new["items"], depth - 1)
        if new["items"].get("type") not in ("string", "integer") or "default" in new["items"]:
            new.pop("x-kubernetes-list-type", None)
        if "x-kubernetes-list-type" in new:
            new["items"].pop("nullable", None)
    if isinstance(new.get("additionalProperties"), dict) and depth > 0:
        new["additionalProperties"] = changed(random, new["additionalProperties"], depth - 1)
    for name in list(new.get("properties", ())) if depth > 0 else ():
        if random.random() < 0.15 and len(new["properties"]) > 1:
            del new["properties"][name]
        else:
            new["properties"][name] = changed(random, new["properties"][name], depth - 1)
    if "properties" in new and random.random() < 0.2:
        new["properties"][random.choice(_NAMES)] = schema(random, depth - 1)
    if "default" in old and random.random() < 0.7:
        treated = serve(new, old["default"])
        if not treated.errors and treated.value == old["default"] and old["default"] is not None:
            new["default"] = old["default"]
    if depth < 2 and random.random() < 0.15:
        _add_default(random, new)
    return new


def instance(random: Random, of: dict[str, Any], *, plain: bool = False) -> Any:  # noqa: ANN401, C901, PLR0911
    """Return a value that is likely to be valid."""
    if not plain and random.random() < (0.3 if of.get("nullable") else 0.05):
        return None
    if "enum" in of:
        return random.choice(of["enum"])
    kind = of.get("type")
    if kind == "string":
        return random.choice(_TEXTS)
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
        found = {
            name: instance(random, field, plain=plain)
            for name, field in of.get("properties", {}).items()
            if name in of.get("required", ()) or random.random() < 0.6
        }
        if isinstance(of.get("additionalProperties"), dict):
            for name in random.sample(("p", "q", "r"), random.randint(0, 3)):
                found[name] = instance(random, of["additionalProperties"], plain=plain)
        if of.get("x-kubernetes-preserve-unknown-fields"):
            for name in random.sample(_NAMES, 2):
                found.setdefault(name, random.choice((1, "x", {"deep": 1}, [1, {"a": 2}], True)))
        return found
    return random.choice((3, "text", 0, "a"))
