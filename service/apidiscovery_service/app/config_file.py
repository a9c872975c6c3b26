"""The configuration file: YAML whose keys are the flags without their dashes, and a few more.

Keys whose values have a structure (`structured.KEYS`) have no flag.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import click
import yaml
from apidiscovery_formats import yaml_text

from apidiscovery_service.app import structured

# Fields of Kubernetes objects; accepted so that the file can be kept with manifests.
_API_VERSION = "apidiscovery/v1"
_KIND = "ServerConfiguration"


# Key of `click.Context.meta` for the entries of keys without a flag.
STRUCTURED = "apidiscovery.structured"


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A key of a file with its value.

    Attributes:
        line: Line of the key, from 1.
        node: The value with the positions of its parts.
    """

    file: Path
    key: str
    line: int
    value: object
    node: yaml.Node


def read_config(path: Path, context: click.Context) -> dict[str, object]:
    """Return the values of a file by parameter name, each validated as its flag is.

    Entries without a flag are put into `context.meta[STRUCTURED]`, by key.

    Raises:
        click.UsageError: The file cannot be read, a key is unknown or duplicate, or a value is not
            one that the flag takes; the message has file, line and key.
    """
    parameters: dict[str, click.Parameter] = {
        str(parameter.name): parameter
        for parameter in context.command.params
        if parameter.name not in ("config", "help", None)
    }
    values: dict[str, object] = {}
    for entry in _entries(path):
        key, value = entry.key, entry.value
        place = f"{path}:{entry.line}, {key}"
        if (key, value) in (("apiVersion", _API_VERSION), ("kind", _KIND)):
            continue
        name = key.replace("-", "_")
        if key in structured.KEYS:
            entries = cast("dict[str, KeyValue]", context.meta.setdefault(STRUCTURED, {}))
            entries[key] = entry
            continue
        if name not in parameters:
            known = (*parameters, *structured.KEYS)
            raise click.UsageError(f"{place}: unknown key{_suggestion(name, known)}")
        if name in values:
            raise click.UsageError(f"{place}: the key is there twice")
        if value is None:
            raise click.UsageError(f"{place}: want a value, got none")
        value_text = _as_flag(value)
        if parameters[name].multiple and isinstance(value_text, str):
            value_text = [value_text]
        try:
            parameters[name].type_cast_value(context, value_text)
        except click.BadParameter as error:
            raise click.UsageError(f"{place}: {error.message}") from None
        values[name] = value_text
    return values


def located(message: str, entries: Mapping[str, KeyValue]) -> str:
    """Return an error with file and line if it begins with the path of a structured key.

    Such a path is `upstreams.east.timeout` or `access[0].role`. The line is that of the innermost
    part that the file has.
    """
    for key, entry in entries.items():
        if message.startswith(key) and _is_at_end(message, len(key)):
            line = _line(entry.node, entry.line, message[len(key) :])
            return f"{entry.file}:{line}, {message}"
    return message


def _line(node: yaml.Node, line: int, path: str) -> int:
    # The longest first, since names may have dots.
    for step, inner, inner_line in sorted(_steps(node), key=lambda found: -len(found[0])):
        if path.startswith(step) and _is_at_end(path, len(step)):
            return _line(inner, inner_line, path[len(step) :])
    return line


def _steps(node: yaml.Node) -> Iterator[tuple[str, yaml.Node, int]]:
    """Yield the parts of a value: the step of a path to it, the part, and its line."""
    if isinstance(node, yaml.MappingNode):
        for key, inner in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            yield f".{key.value}", inner, key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for index, inner in enumerate(cast("list[yaml.Node]", node.value)):
            yield f"[{index}]", inner, inner.start_mark.line + 1


def _is_at_end(path: str, length: int) -> bool:
    """Return whether a key of a path ends at this length."""
    return path[length : length + 1] in (".", "[", ":")


def _entries(path: Path) -> list[KeyValue]:
    try:
        text = path.read_text(encoding="utf-8")
        value = yaml_text.load(text)
    except OSError as error:
        raise click.UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise click.UsageError(f"{path}: not UTF-8") from None
    except yaml_text.Unparsable as error:
        raise click.UsageError(f"{path}:{error.line + 1}: {error}") from None
    if value is None:
        return []
    node = yaml.compose(text, yaml.CSafeLoader)
    if not isinstance(node, yaml.MappingNode) or not isinstance(value, dict):
        raise click.UsageError(f"{path}:1: want keys and values, got {type(value).__name__}")
    _refuse_boolean_keys(path, node)
    keys = cast("list[tuple[yaml.ScalarNode, yaml.Node]]", node.value)
    values = cast("dict[object, object]", value).values()
    # A merge key (`<<`) adds values without keys; it is reported as unknown.
    return [
        KeyValue(path, str(key.value), key.start_mark.line + 1, value, node)
        for (key, node), value in zip(keys, values, strict=False)
    ]


def _refuse_boolean_keys(path: Path, node: yaml.Node) -> None:
    """Refuse an unquoted name such as `no`: a boolean in YAML, which would become `false`."""
    if isinstance(node, yaml.MappingNode):
        for key, _ in cast("list[tuple[yaml.ScalarNode, yaml.Node]]", node.value):
            if not key.style and key.value in yaml_text.CONSTANTS:
                line = key.start_mark.line + 1
                raise click.UsageError(f"{path}:{line}: {key.value} is not text in YAML; quote it")
    for _, inner, _ in _steps(node):
        _refuse_boolean_keys(path, inner)


def _as_flag(value: object) -> object:
    """Return a value as the command line gives it: text, or a list of text."""
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value)
        return ",".join(f"{name}={_scalar(on)}" for name, on in pairs.items())
    if isinstance(value, list):
        return [_scalar(element) for element in cast("list[object]", value)]
    return _scalar(value)


def _scalar(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _suggestion(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0].replace('_', '-')}?" if close else ""
