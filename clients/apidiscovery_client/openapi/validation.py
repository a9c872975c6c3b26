"""Says what keeps a document from being sound OpenAPI 3.0."""

from itertools import islice

from apidiscovery_formats.openapi import validation
from apidiscovery_formats.openapi.places import Problem
from apidiscovery_formats.strict_json import Marks

from apidiscovery_client._fields import check_size
from apidiscovery_client.openapi.json_documents import is_too_deep

MAX_PROBLEMS = 1000  # that are told of one document


def problems(data: bytes) -> list[Problem]:
    """Return what is wrong with a JSON text as a document, in its order, at most `MAX_PROBLEMS`.

    What JSON text cannot say for certain, such as a name that stands twice, is told alone.
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


_TOO_DEEP = Problem((), "it is nested too deeply")
