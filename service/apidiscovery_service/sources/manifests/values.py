"""The values of the documents of manifests."""

import json
import re
from contextlib import suppress
from typing import Final, cast

import orjson
from apidiscovery_formats import yaml_text
from apidiscovery_formats.manifest_text import is_like_json
from apidiscovery_formats.yaml_text import Budget, Unparsable

from apidiscovery_service.kube.go_json import JSONValue

# Longer text that begins like JSON is read as JSON only, and its errors have no lines: as YAML it
# takes a hundred times as long.
MAX_FLOW_CHARACTERS: Final = 256 * 1024

_JSON_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


def parse(text: str, budget: Budget | None) -> object:
    """Return the value of a document.

    Args:
        text: JSON or YAML.
        budget: The number of values it may have; None for trusted text.

    Raises:
        Unparsable: It is neither, has a duplicate key or too many values.
    """
    if not is_like_json(text):
        return yaml_text.load(text, budget)
    if budget is not None:
        _count_json(text, budget)
    try:
        value = cast("object", orjson.loads(text))
        json.loads(text, object_pairs_hook=_refuse_duplicates)  # orjson keeps the last
    except orjson.JSONDecodeError as error:
        if len(text) <= MAX_FLOW_CHARACTERS:
            with suppress(Unparsable):  # YAML in flow style begins like JSON
                return yaml_text.load(text)
        raise Unparsable(f"no JSON: {error.msg}", error.lineno - 1) from None
    except RecursionError:
        raise Unparsable("nested too deeply") from None
    except _KeyTwice as error:
        if len(text) <= MAX_FLOW_CHARACTERS:
            _raise_with_line(text)
        raise Unparsable(str(error)) from None
    return value


class _KeyTwice(Exception):
    """An object has a duplicate key."""


def _refuse_duplicates(members: list[tuple[str, JSONValue]]) -> None:
    if len(dict(members)) == len(members):
        return
    seen: set[str] = set()
    for name, _ in members:
        if name in seen:
            raise _KeyTwice(f"the key {name[:100]!r} is there twice")
        seen.add(name)


def _raise_with_line(text: str) -> None:
    """Raise the error of JSON text as YAML, which most JSON is: it has a line."""
    try:
        yaml_text.load(text)
    except Unparsable as error:
        if error.line:
            raise


def _count_json(text: str, budget: Budget) -> None:
    """Take the values of a JSON text from a budget, before they are created.

    Each value but the first of an array or object follows a comma, each key precedes a colon. If
    there are too many such characters, those in strings are not counted, which takes longer.
    """
    count = 1 + _marks(text)
    budget.spend(count if count <= budget.left else 1 + _marks(_JSON_STRING.sub("", text)))


def _marks(text: str) -> int:
    return sum(map(text.count, ",:[{"))
