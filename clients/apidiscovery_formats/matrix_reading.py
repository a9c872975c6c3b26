"""Reads the JSON form of a matrix: the inverse of `matrix.to_json`.

Names that this release does not know are ignored, as in every document of Kubernetes.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TypeVar, cast

from apidiscovery_formats.matrix import (
    Agreement,
    Cell,
    Column,
    Freshness,
    Matrix,
    Row,
)

_Fields = Mapping[str, object]
_E = TypeVar("_E", bound=StrEnum)


class NotAMatrix(ValueError):
    """A JSON value is not a matrix; the text names the field, the value and what is wanted."""


def from_json(value: object) -> Matrix:
    """Return the matrix in a JSON value that `to_json` made.

    Raises:
        NotAMatrix: It is none.
    """
    fields = _object(value, "the document")
    columns = tuple(
        _column(each, f"clusters[{place}]")
        for place, each in enumerate(_required_list(fields, "clusters", ""))
    )
    places = {column.name: place for place, column in enumerate(columns)}
    if len(places) < len(columns):
        raise NotAMatrix("clusters has a name twice, want each once")
    rows = tuple(
        _row(each, f"rows[{place}]", places)
        for place, each in enumerate(_required_list(fields, "rows", ""))
    )
    return Matrix(columns, rows)


def _column(value: object, path: str) -> Column:
    fields = _object(value, path)
    labels = _object(fields.get("labels", {}), f"{path}.labels")
    return Column(
        name=_text(fields, "name", path, required=True),
        freshness=_word(Freshness, fields, "freshness", path),
        since=_text(fields, "since", path),
        reason=_text(fields, "reason", path),
        version=_text(fields, "version", path),
        resources=_count(fields, "resources", path),
        hash=_text(fields, "hash", path),
        labels={name: _text(labels, name, f"{path}.labels") for name in labels},
    )


def _row(value: object, path: str, places: Mapping[str, int]) -> Row:
    fields = _object(value, path)
    cells: list[Cell | None] = [None] * len(places)
    for number, each in enumerate(_required_list(fields, "cells", path)):
        where = f"{path}.cells[{number}]"
        told = _object(each, where)
        cell = _cell(told, where)
        for name in _texts(told, "clusters", where):
            if name not in places:
                raise NotAMatrix(f"{where}.clusters has {name!r}, which is not among the clusters")
            if cells[places[name]] is not None:
                raise NotAMatrix(f"{where}.clusters has {name!r}, which has a cell already")
            cells[places[name]] = cell
    return Row(
        group=_text(fields, "group", path),
        resource=_text(fields, "resource", path, required=True),
        cells=tuple(cells),
        agreement=_word(Agreement, fields, "agreement", path),
    )


def _cell(fields: _Fields, path: str) -> Cell:
    return Cell(
        versions=_texts(fields, "versions", path),
        preferred=_text(fields, "preferred", path),
        kind=_text(fields, "kind", path),
        scope=_text(fields, "scope", path),
        short_names=_texts(fields, "shortNames", path),
        verbs=_texts(fields, "verbs", path),
        subresources=_texts(fields, "subresources", path),
        storage_version_hash=_text(fields, "storageVersionHash", path),
        stale=_texts(fields, "stale", path),
        unknown=_texts(fields, "unknownVersions", path),
    )


def _object(value: object, path: str) -> _Fields:
    if not isinstance(value, dict):
        raise NotAMatrix(f"{path} is {_seen(value)}, want an object")
    return cast("_Fields", value)


def _required_list(fields: _Fields, key: str, path: str) -> list[object]:
    if key not in fields:
        raise NotAMatrix(f"{_path(path, key)} is missing, want an array")
    return _list(fields[key], _path(path, key))


def _list(value: object, path: str) -> list[object]:
    if not isinstance(value, list):
        raise NotAMatrix(f"{path} is {_seen(value)}, want an array")
    return cast("list[object]", value)


def _texts(fields: _Fields, key: str, path: str) -> tuple[str, ...]:
    where = _path(path, key)
    return tuple(_each_text(_list(fields.get(key, []), where), where))


def _each_text(values: list[object], path: str) -> Iterator[str]:
    for place, value in enumerate(values):
        if not isinstance(value, str):
            raise NotAMatrix(f"{path}[{place}] is {_seen(value)}, want a string")
        yield value


def _text(fields: _Fields, key: str, path: str, *, required: bool = False) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise NotAMatrix(f"{_path(path, key)} is {_seen(value)}, want a string")
    if required and not value:
        raise NotAMatrix(f"{_path(path, key)} is missing or empty, want a name")
    return value


def _count(fields: _Fields, key: str, path: str) -> int:
    value = fields.get(key, 0)
    if not isinstance(value, int) or isinstance(value, bool):
        raise NotAMatrix(f"{_path(path, key)} is {_seen(value)}, want a whole number")
    return value


def _word(words: type[_E], fields: _Fields, key: str, path: str) -> _E:
    value = _text(fields, key, path)
    try:
        return words(value)
    except ValueError:
        wanted = ", ".join(words)
        raise NotAMatrix(f"{_path(path, key)} is {value!r}, want one of {wanted}") from None


def _path(parent: str, key: str) -> str:
    return f"{parent}.{key}" if parent else key


def _seen(value: object) -> str:
    return "null" if value is None else type(value).__name__
