"""Finds manifest files, and reads the kinds and names in them where a flag needs these.

The server parses and validates manifests.
"""

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import yaml
from apidiscovery_formats.json_values import as_object

from apidiscovery_cli.files import STDIN, UnusableFile, read_input
from apidiscovery_cli.registration_objects import GROUPS, KINDS, Kind

EXTENSIONS = (".json", ".yaml", ".yml")  # cli-runtime pkg/resource/builder.go `FileExtensions`
_STDIN_PATH = "STDIN"  # the name that kubectl and our server use in positions
_MAX_DEPTH = 64  # libyaml builds by recursion
_MAX_BYTES = 16 << 20  # twice the limit of our server for a request

_SEPARATOR = re.compile(rb"^---(?=[ \t\r]|$)", re.MULTILINE)
_LIST = GROUPS.api_kind.encode()


@dataclass(frozen=True, slots=True)
class File:
    """The text of a manifest file.

    Attributes:
        path: As shown to the user.
        list_name: For a discovery list without a name; empty where there is none.
    """

    path: str
    content: bytes
    list_name: str = ""


@dataclass(frozen=True, slots=True)
class Named:
    """An object in a manifest."""

    kind: Kind
    name: str


def paths(given: Iterable[str], *, recursive: bool) -> Iterator[Path | UnusableFile]:
    """Yield the files of arguments: those of a directory sorted; `-` is stdin."""
    for text in given:
        path = Path(text)
        if text == STDIN or path.is_file():
            yield path
        elif path.is_dir():
            yield from _below(path, recursive=recursive)
        elif path.exists():  # a pipe, such as a shell's <(...)
            yield path
        else:
            yield UnusableFile(f'the path "{text}" does not exist')


def _below(folder: Path, *, recursive: bool) -> Iterator[Path | UnusableFile]:
    try:
        found = sorted(folder.rglob("*") if recursive else folder.iterdir())
    except OSError as error:
        yield UnusableFile(f"{folder} cannot be read: {error.strerror or error}")
        return
    files = [path for path in found if path.suffix in EXTENSIONS and path.is_file()]
    if not files:
        known = " ".join(EXTENSIONS)
        yield UnusableFile(f"error reading [{folder}]: recognized file extensions are [{known}]")
    yield from files


def readable(
    given: Iterable[str], *, recursive: bool, name: str | None = None
) -> Iterator[File | UnusableFile]:
    """Yield the files of arguments, as `read` returns them, or why one is not readable."""
    for path in paths(given, recursive=recursive):
        try:
            yield path if isinstance(path, UnusableFile) else read(path, name)
        except UnusableFile as error:
            yield error


def read(path: Path, name: str | None) -> File:
    """Read a file; raise `UnusableFile` when that fails.

    The name of a discovery list in it is `name`, or that in its `metadata`, which
    `apidiscovery get` writes, or the name of the file without extension.
    """
    is_stdin = str(path) == STDIN
    shown = _STDIN_PATH if is_stdin else str(path)
    try:
        content = read_input(str(path), _MAX_BYTES)
    except OSError as error:
        raise UnusableFile(f"{path} cannot be read: {error.strerror or error}") from None
    if _LIST not in content:
        return File(shown, content)
    own_name = _own_name(content)
    if name and own_name and name != own_name:
        raise UnusableFile(f'the list in {shown} has the name "{own_name}", not "{name}"')
    return File(shown, content, name or own_name or ("" if is_stdin else path.stem))


def _own_name(content: bytes) -> str:
    """Return the name in the first discovery list; empty for none, and for invalid YAML."""
    with suppress(UnusableFile):
        for value in _values(File("", content)):
            fields = as_object(value)
            if fields.get("kind") == GROUPS.api_kind:
                return _text(as_object(fields.get("metadata")).get("name"))
    return ""


def objects(file: File) -> list[Named]:
    """Return the objects in a file, in order; raise `UnusableFile` for unknown ones.

    Discovery lists have the names that the server gives them: their own, or that of the file, with
    `-2` and so on for further ones.
    """
    found: list[Named] = []
    for value in _values(file):
        kind, name = _kind(value, file.path), _text(as_object(value.get("metadata")).get("name"))
        if kind is GROUPS and not name:
            number = 1 + sum(earlier.kind is GROUPS for earlier in found)
            name = file.list_name if number == 1 else f"{file.list_name}-{number}"
        if not name:
            wanted = "a name for the list: give --name" if kind is GROUPS else "metadata.name"
            raise UnusableFile(f"{file.path}: a {kind.api_kind} lacks {wanted}")
        found.append(Named(kind, name))
    return found


def _kind(value: Mapping[str, object], path: str) -> Kind:
    api_kind, api_version = _text(value.get("kind")), _text(value.get("apiVersion"))
    group = api_version.partition("/")[0]
    for kind in KINDS:
        if (kind.api_kind, kind.api_group) == (api_kind, group):
            return kind
    known = ", ".join(kind.api_kind for kind in KINDS)
    raise UnusableFile(f"{path}: want {known} or a List, got {api_kind!r} of {api_version!r}")


def _values(file: File) -> Iterator[Mapping[str, object]]:
    """Yield the objects of all documents and of `List`s in them; all scalars are text."""
    line = 1
    start = 0
    for end, after in [
        *((m.start(), m.end()) for m in _SEPARATOR.finditer(file.content)),
        (len(file.content), 0),
    ]:
        value = _load(file.content[start:end], file.path, line)
        if value is not None:
            yield from _items(value)
        line += file.content.count(b"\n", start, end)
        start = after


def _items(value: object) -> Iterator[Mapping[str, object]]:
    fields = as_object(value)
    items = fields.get("items")
    if fields.get("kind") == "List" and isinstance(items, list):
        yield from map(as_object, items)
    elif fields.get("kind") != "List":
        yield fields


def _load(text: bytes, path: str, first_line: int) -> object:
    """Return a document with every scalar as text, None for an empty one."""
    try:
        depth = 0
        for event in yaml.parse(io.BytesIO(text), yaml.CBaseLoader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > _MAX_DEPTH:
                raise UnusableFile(f"{path}: nested deeper than {_MAX_DEPTH} levels")
        return cast("object", yaml.load(io.BytesIO(text), yaml.CBaseLoader))  # noqa: S506 - builds text only
    except yaml.MarkedYAMLError as error:
        line = first_line + (error.problem_mark.line if error.problem_mark else 0)
        raise UnusableFile(f"{path}:{line}: no YAML: {error.problem}") from None
    except yaml.reader.ReaderError as error:  # not UTF-8, or a control character
        line = first_line + text.count(b"\n", 0, error.position)
        raise UnusableFile(f"{path}:{line}: no YAML: {error.reason}") from None
    except yaml.YAMLError as error:
        raise UnusableFile(f"{path}: no YAML: {' '.join(str(error).split())}") from None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
