"""Finds what makes a document invalid as OpenAPI 3.0."""

import json
from itertools import islice
from typing import cast

from apidiscovery_client._fields import check_size
from apidiscovery_client.openapi.json_documents import is_too_deep
from apidiscovery_formats import yaml_text
from apidiscovery_formats.openapi import validation
from apidiscovery_formats.openapi.pointers import Problem
from apidiscovery_formats.strict_json import Marks

MAX_PROBLEMS = 1000  # reported for one document


def problems(data: bytes) -> list[Problem]:
    """Return what is wrong with a JSON text as a document, in its order, at most `MAX_PROBLEMS`.

    Where the text is ambiguous as JSON, such as with a repeated name, only that is reported.
    """
    marks = Marks()
    try:
        check_size(data)
        document = marks.loads(data)
    except RecursionError:
        return [_TOO_DEEP]
    except ValueError as error:
        return [Problem((), f"it is not JSON: {error}")]
    if is_too_deep(document):
        return [_TOO_DEEP]
    unclear = list(islice(marks.problems(data, document), MAX_PROBLEMS))
    return unclear or validation.problems(document, most=MAX_PROBLEMS)


def file_problems(data: bytes) -> list[Problem]:
    """Return what is wrong with a text of JSON or YAML as a document, as `problems` does."""
    if data.lstrip()[:1] in (b"{", b"["):
        return problems(data)
    try:
        document = yaml_text.load(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return [Problem((), f"it is neither JSON nor YAML: {error}")]
    except yaml_text.Unparsable as error:
        return [Problem((), f"line {error.line + 1}: {error}")]
    if is_too_deep(document):
        return [_TOO_DEEP]
    return validation.problems(_with_texts_as_names(document, {}), most=MAX_PROBLEMS)


def _with_texts_as_names(value: object, done: dict[int, object]) -> object:
    """Return a value in which the names of fields are texts, as in JSON.

    What stands in several places, by aliases, stays one: written out it could fill any memory.
    """
    place = id(value)
    if place in done:
        return done[place]
    if isinstance(value, list):
        items = cast("list[object]", value)
        made: object = [_with_texts_as_names(item, done) for item in items]
    elif isinstance(value, dict):
        fields = cast("dict[object, object]", value)
        made = {_name(key): _with_texts_as_names(fields[key], done) for key in fields}
    else:
        return value
    done[place] = made
    return made


def _name(key: object) -> str:
    return key if isinstance(key, str) else json.dumps(key)


_TOO_DEEP = Problem((), "it is nested too deeply")
