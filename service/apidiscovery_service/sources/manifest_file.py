"""One manifest file, YAML or JSON, into the offers that stand in it.

A file is split into documents as kubectl does it, at lines that begin with `---`; each document
is JSON if it begins like JSON, else YAML. Reading keeps no positions: only when a field is wrong
is the document read again, to find its line.
"""

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import TypeAlias, cast

import orjson
import yaml

from apidiscovery_service.errors import InvalidDocument
from apidiscovery_service.model import Offer, Version
from apidiscovery_service.sources import yaml_text
from apidiscovery_service.sources.discovery_list import (
    API_VERSIONS,
    KIND,
    InvalidField,
    Node,
    Path,
    path_text,
    read_list,
)
from apidiscovery_service.sources.priorities import ordered_offers
from apidiscovery_service.sources.yaml_text import Unparsable

MAX_FILE_BYTES = 64 * 1024 * 1024

# A discovery list with its path in the document.
_PlacedList: TypeAlias = tuple[Path, list[tuple[str, tuple[Version, ...]]]]

# What follows on the line belongs to the document.
_SEPARATOR = re.compile(r"^---(?=[ \t\r]|$)", re.MULTILINE)
_UNDERSTOOD = f"{KIND} of {' or '.join(API_VERSIONS)}, or a v1 List of such"


@dataclass(frozen=True, slots=True)
class _Document:
    """A document of a file.

    Attributes:
        number: Counted from 1.
        first_line: Line of the file where its text begins, counted from 1.
    """

    number: int
    first_line: int
    text: str


def read_manifest(path: FilePath) -> tuple[Offer, ...]:
    """Return what a manifest file offers, in its order.

    Raises:
        InvalidDocument: The file cannot be read, is no YAML or JSON, or holds anything but
            discovery lists; the error says which document, line and field.
    """
    offers: list[Offer] = []
    rank = 0
    owners: dict[tuple[str, str], int] = {}
    for document in _documents(_text(path)):
        try:
            groups = list(_groups(_parse(document)))
            _claim(groups, document.number, owners)
        except InvalidField as error:
            raise _placed(error, path, document) from None
        except Unparsable as error:
            line = document.first_line + min(error.line, document.text.rstrip().count("\n"))
            raise _invalid(path, str(error), document.number, line) from None
        for _, listed in groups:
            offers += ordered_offers(listed, rank)
            rank += len(listed)
    return tuple(offers)


def _invalid(path: FilePath, message: str, document: int = 0, line: int = 0) -> InvalidDocument:
    return InvalidDocument(message, file=str(path), document=document, line=line, field="")


def _text(path: FilePath) -> str:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise _invalid(path, f"larger than {MAX_FILE_BYTES >> 20} MiB")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise _invalid(path, f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise _invalid(path, f"not UTF-8: {error.reason}", line=line) from None


def _documents(text: str) -> Iterator[_Document]:
    """Yield the documents that hold anything; empty ones count for the number all the same."""
    start, number = 0, 1
    for end, after in [*((m.start(), m.end()) for m in _SEPARATOR.finditer(text)), (len(text), 0)]:
        part = text[start:end]
        if any(line.strip() and not line.lstrip().startswith("#") for line in part.splitlines()):
            yield _Document(number, text.count("\n", 0, start) + 1, part)
            number += 1
        elif start:
            number += 1
        start = after


def _parse(document: _Document) -> object:
    if document.text.lstrip()[:1] not in ("{", "["):
        return yaml_text.load(document.text)
    try:
        value = cast("object", orjson.loads(document.text))
    except orjson.JSONDecodeError as error:
        try:  # YAML in flow style begins like JSON
            return yaml_text.load(document.text)
        except Unparsable:
            raise Unparsable(f"no JSON: {error.msg}", error.lineno - 1) from None
    _check_json(document.text)
    return value


def _check_json(text: str) -> None:
    """See that no object has a key twice: orjson keeps the last one without a word."""
    try:
        json.loads(text, object_pairs_hook=_without_duplicates)
    except Unparsable:
        with contextlib.suppress(yaml.YAMLError):
            yaml_text.check(text)  # JSON is YAML, and that knows the line
        raise
    except RecursionError:
        raise Unparsable("nested too deeply") from None


def _without_duplicates(pairs: list[tuple[str, object]]) -> None:
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise Unparsable(f"the key {twice[:100]!r} is there twice")


def _groups(value: object) -> Iterator[_PlacedList]:
    """Yield each discovery list in a document with its path."""
    node = Node(value)
    if _type_of(node) != ("List", "v1"):
        yield node.path, _read(node)
        return
    fields = node.mapping("kind", "apiVersion", "metadata", "items")
    for item in fields["items"].items(lambda item: item) if "items" in fields else ():
        yield item.path, _read(item)


def _type_of(node: Node) -> tuple[str, str]:
    fields = node.mapping()
    kind = fields["kind"].text() if "kind" in fields else ""
    return kind, fields["apiVersion"].text() if "apiVersion" in fields else ""


def _read(node: Node) -> list[tuple[str, tuple[Version, ...]]]:
    kind, api_version = _type_of(node)
    if kind not in (KIND, "List"):
        raise InvalidField((*node.path, "kind"), f"want {_UNDERSTOOD}, got {kind[:100]!r}")
    if kind == "List" or api_version not in API_VERSIONS:
        seen = f"{api_version[:100]!r} of {kind}"
        raise InvalidField((*node.path, "apiVersion"), f"want {_UNDERSTOOD}, got {seen}")
    return read_list(node)


def _claim(lists: list[_PlacedList], document: int, owners: dict[tuple[str, str], int]) -> None:
    """Note which document offers which group-version; none may be offered twice in a file."""
    for path, groups in lists:
        for place, (group, versions) in enumerate(groups):
            for version_place, version in enumerate(versions):
                name = (group, version.version)
                if name in owners:
                    raise InvalidField(
                        (*path, "items", place, "versions", version_place, "version"),
                        f"{'/'.join(filter(None, name))} is already in document {owners[name]}",
                    )
                owners[name] = document


def _placed(error: InvalidField, path: FilePath, document: _Document) -> InvalidDocument:
    return InvalidDocument(
        str(error),
        file=str(path),
        document=document.number,
        line=document.first_line + _line(document.text, error.path),
        field=path_text(error.path),
    )


def _line(text: str, path: Path) -> int:
    """Return the line within a document, from 0, of a field or of the closest that is there."""
    try:
        yaml_text.check(text)
        node = yaml.compose(text, yaml.CSafeLoader)
    except (Unparsable, yaml.YAMLError, ValueError):
        return 0  # JSON that is no YAML, such as one with a surrogate pair escaped
    line = 0
    for step in path:
        found = _child(node, step)
        if found is None:
            break
        line, node = found
    return line


def _child(node: yaml.Node | None, step: str | int) -> tuple[int, yaml.Node] | None:
    """Return a field or element of a node, and the line where its name or it itself begins."""
    if isinstance(node, yaml.MappingNode):
        for key, value in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            if key.value == step:
                return key.start_mark.line, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
        value = cast("list[yaml.Node]", node.value)[step]
        return value.start_mark.line, value
    return None
