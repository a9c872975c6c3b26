"""Whether a document is a sound OpenAPI 3.0 document.

Every field is of its type, every reference leads into the same document. Regular expressions in it
are not tried. The document has been read and its depth been bounded: nothing here reads JSON.
"""

from contextlib import suppress
from typing import cast

from apidiscovery_formats.go_json import JSONValue
from apidiscovery_formats.openapi.places import Problem
from apidiscovery_formats.openapi.shapes import EnoughError, Run, as_object
from apidiscovery_formats.openapi.tables import DOCUMENT


def problems(document: object, *, most: int, published: bool = False) -> list[Problem]:
    """Return what is wrong with a document, in its order.

    Args:
        document: As JSON has it, not nested deeper than Python calls may be.
        most: How many problems are told; more would only be read by a machine.
        published: Whether a server is to publish it. Then it has to describe every path in its
            place and to refer to components alone, which is all that Kubernetes' readers follow;
            what nobody stumbles over, lists of schemas and of responses that are empty, is borne.
    """
    run = Run(as_object(document), most, published=published)
    with suppress(EnoughError):
        DOCUMENT.check(cast("JSONValue", document), None, run)
    return run.problems
