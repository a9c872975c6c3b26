"""Reads the objects of manifests, for errors that name file and line.

YAML and JSON are read as kubectl reads them, several documents in a file; objects in lists come
one by one.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

import yaml
from apidiscovery_formats import yaml_text
from apidiscovery_formats.json_values import as_object
from apidiscovery_formats.manifest_text import Text, documents, is_like_json, lines, members
from apidiscovery_formats.openapi.pointers import Path
from apidiscovery_formats.yaml_text import Budget, Unparsable

from apidiscovery_client._errors import InvalidConfiguration
from apidiscovery_client._fields import Fields, name_of

_MAX_LOCATED = 1 << 20  # characters; errors of longer documents name the first line only
# As `helm template` writes it above each document.
_SOURCE = re.compile(r"^# Source: (\S.*)$", re.MULTILINE)


class UnreadableManifest(InvalidConfiguration):
    """A file has no objects in YAML or JSON; the text begins with file and line."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """An object in a file.

    Attributes:
        path: Of the file, as errors name it.
        source: The template that a comment of `helm template` names; empty without one.
        fields: The object.
    """

    path: str
    source: str
    fields: Fields
    _text: Text = field(repr=False)
    _place: Path = ()

    @property
    def line(self) -> int:
        """The line of the file where the object begins, from 1."""
        return self.lines([()])[0]

    @property
    def api_version(self) -> str:
        """Its apiVersion; empty where that is not text, as are the next three."""
        return self._text_at(self.fields, "apiVersion")

    @property
    def kind(self) -> str:
        """Its kind."""
        return self._text_at(self.fields, "kind")

    @property
    def name(self) -> str:
        """Its name, or what the server is to make one from."""
        metadata = self._metadata
        return self._text_at(metadata, "name") or self._text_at(metadata, "generateName")

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self._text_at(self._metadata, "namespace")

    def lines(self, paths: Sequence[Path]) -> list[int]:
        """Return the line of each field, or of the closest field around it, from 1."""
        text, first = self._text.text, self._text.first_line
        blank = _blank_lines(text)
        if len(text) <= _MAX_LOCATED:
            with suppress(yaml.YAMLError):  # JSON that YAML does not have
                found = lines(text, [(*self._place, *path) for path in paths])
                return [first + max(line, blank) for line in found]
        return [first + blank] * len(paths)

    @property
    def _metadata(self) -> Fields:
        return as_object(self.fields.get("metadata"))

    @staticmethod
    def _text_at(fields: Fields, key: str) -> str:
        value = fields.get(key)
        return value if isinstance(value, str) else ""


def _blank_lines(text: str) -> int:
    """Return how many lines of a document come before its first value."""
    for number, line in enumerate(text.splitlines()):
        bare = line.strip()
        # Behind a separator the rest of its line is what the text begins with.
        if bare and not bare.startswith(("#", "---")):
            return number
    return 0


def read_manifests(content: bytes, path: str) -> Iterator[Manifest]:
    """Yield the objects of a file, in order.

    Args:
        content: YAML or JSON, of one or several documents; it may be empty.
        path: How errors and manifests name the file.

    Raises:
        UnreadableManifest: It is neither; or a document is not an object.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UnreadableManifest(f"{path}:{line}: it is not UTF-8; save it as UTF-8") from None
    budget = Budget()
    for part in documents(text):
        value = _value(part, path, budget)
        found = _SOURCE.search(part.text)
        source = found[1].strip() if found else ""
        for place, fields in _objects(value, (), part, path):
            yield Manifest(path, source, fields, part, place)


def _value(part: Text, path: str, budget: Budget) -> object:
    try:
        return _parsed(part.text, budget)
    except Unparsable as error:
        raise UnreadableManifest(f"{path}:{part.line_of(error)}: {error}") from None


def _parsed(text: str, budget: Budget) -> object:
    if not is_like_json(text):
        return yaml_text.load(text, budget)
    budget.spend(1 + sum(map(text.count, ",[{")))
    try:
        return json.loads(
            text, object_pairs_hook=members, parse_constant=_not_json, parse_float=_finite
        )
    except RecursionError:
        raise Unparsable("nested too deeply") from None
    except json.JSONDecodeError as error:
        if len(text) > _MAX_LOCATED:
            raise Unparsable(f"no JSON: {error.msg}", error.lineno - 1) from None
        return yaml_text.load(text)  # YAML in flow style begins like JSON


def _not_json(text: str) -> object:
    """Refuse what JSON does not have: the text is YAML then, as it is for the service."""
    raise json.JSONDecodeError(f"{text} is not a number", text, 0)


def _finite(text: str) -> object:
    number = float(text)
    return number if math.isfinite(number) else _not_json(text)


def _objects(value: object, place: Path, part: Text, path: str) -> Iterator[tuple[Path, Fields]]:
    """Yield an object, or those in a list of them, with their places in the document."""
    if value is None:
        return
    if not isinstance(value, dict):
        raise UnreadableManifest(
            f"{path}:{part.first_line}: it is {name_of(value)}, not an object with apiVersion and"
            " kind"
        )
    fields = cast("Fields", value)
    items = fields.get("items")
    if str(fields.get("kind")).endswith("List") and isinstance(items, list):
        for number, item in enumerate(cast("list[object]", items)):
            yield from _objects(item, (*place, "items", number), part, path)
    else:
        yield place, fields
