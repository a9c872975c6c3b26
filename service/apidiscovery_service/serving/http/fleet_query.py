"""The query of a request to `/fleet/clusters` or `/fleet/matrix`, and the place of a page."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson
from apidiscovery_formats.go_text import parse_bool
from apidiscovery_formats.matrix import Selection

from apidiscovery_service.kube.objects import errors
from apidiscovery_service.kube.objects.selectors import LabelSelector, parse_labels

# What clients of Kubernetes send with any request; the gateway reads them.
_GENERAL = ("pretty", "timeout")
CLUSTER_PARAMETERS = ("labelSelector", "limit", "continue")
MATRIX_PARAMETERS = ("group", "kind", "labelSelector", "different", "limit", "continue")

_MAX_LIMIT_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page begins: the value of `continue`.

    Attributes:
        state: The hash of the whole list that the page belongs to.
        start: How many items came before.
    """

    state: str
    start: int

    def encode(self) -> str:
        """Return it as opaque text that needs no escaping in a URL."""
        text = orjson.dumps({"state": self.state, "start": self.start})
        return base64.urlsafe_b64encode(text).rstrip(b"=").decode()

    @classmethod
    def decode(cls, token: str) -> "Place":
        """Return the place of a token.

        Raises:
            ObjectError: 400; it is malformed.
        """
        try:
            text = base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True)
            fields: object = orjson.loads(text)
        except (ValueError, binascii.Error):
            fields = None
        match fields:
            case {"state": str(state), "start": int(start)} if start > 0:
                return cls(state, start)
            case _:
                raise errors.bad_request(
                    "continue: want the value of metadata.continue of the previous page"
                )


@dataclass(frozen=True, slots=True)
class Query:
    """The parameters of a request.

    Attributes:
        labels: Selects clusters.
        selection: Selects rows of the matrix.
        limit: Maximum number of items of a page; 0 for all.
        place: Where the page begins; None for the first.
    """

    labels: LabelSelector
    selection: Selection
    limit: int = 0
    place: Place | None = None


def parse_query(parameters: Mapping[str, Sequence[str]], known: Sequence[str]) -> Query:
    """Return the parameters of a query.

    Args:
        parameters: The parameters of the query by name.
        known: The names of parameters that are allowed.

    Raises:
        ObjectError: 400; a name is not among them, or a value cannot be read.
    """
    for name in parameters:
        if name not in known and name not in _GENERAL:
            raise errors.bad_request(
                f"unknown parameter {name[:100]!r}: want {', '.join(known[:-1])} or {known[-1]}"
            )
    token = _single(parameters, "continue")
    try:
        labels = parse_labels(_single(parameters, "labelSelector"))
    except errors.ObjectError as error:
        raise errors.bad_request(f"labelSelector: {error.message}") from None
    return Query(
        labels,
        Selection.of(
            parameters.get("group", ()),
            parameters.get("kind", ()),
            different=_flag(parameters, "different"),
        ),
        _limit(_single(parameters, "limit")),
        Place.decode(token) if token else None,
    )


def _single(parameters: Mapping[str, Sequence[str]], name: str) -> str:
    values = parameters.get(name, ("",))
    if len(values) > 1:
        raise errors.bad_request(f"{name}: want one value, got {len(values)}")
    return values[0]


def _flag(parameters: Mapping[str, Sequence[str]], name: str) -> bool:
    text = _single(parameters, name)
    value = parse_bool(text) if text else False
    if value is None:
        raise errors.bad_request(f"{name}: want true or false, got {text[:100]!r}")
    return value


def _limit(text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_LIMIT_DIGITS):
        raise errors.bad_request(
            f"limit: want a number of items, 0 or nothing for all, got {text[:100]!r}"
        )
    return int(text)
