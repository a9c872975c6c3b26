"""The configuration file: YAML whose keys are the flags without their dashes."""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import click
import yaml

from apidiscovery_service.sources import yaml_text

# What Kubernetes-style files carry; accepted so that such a file can be kept with others.
_API_VERSION = "apidiscovery/v1"
_KIND = "ServerConfiguration"


def read_config(path: Path, context: click.Context) -> dict[str, object]:
    """Return the values of a file by parameter name, each checked as its flag would be.

    Raises:
        click.UsageError: The file cannot be read, a key is unknown or there twice, or a value is
            not what the flag takes; the message names file, line and key.
    """
    parameters: dict[str, click.Parameter] = {
        str(parameter.name): parameter
        for parameter in context.command.params
        if parameter.name not in ("config", "help", None)
    }
    values: dict[str, object] = {}
    for key, line, value in _entries(path):
        place = f"{path}:{line}, {key}"
        if (key, value) in (("apiVersion", _API_VERSION), ("kind", _KIND)):
            continue
        name = key.replace("-", "_")
        if name not in parameters:
            raise click.UsageError(f"{place}: unknown key{_suggestion(name, parameters)}")
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


def _entries(path: Path) -> list[tuple[str, int, object]]:
    """Return key, line and value of each entry."""
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
    keys = cast("list[tuple[yaml.ScalarNode, yaml.Node]]", node.value)
    values = cast("dict[object, object]", value).values()
    # Not a merge key, which would make more values than keys: it is unknown here anyway.
    return [
        (str(key.value), key.start_mark.line + 1, value)
        for (key, _), value in zip(keys, values, strict=False)
    ]


def _as_flag(value: object) -> object:
    """Return a value in the form that the command line would give: text, or a list of it."""
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


def _suggestion(name: str, parameters: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(name, parameters, 1)
    return f"; did you mean {close[0].replace('_', '-')}?" if close else ""
