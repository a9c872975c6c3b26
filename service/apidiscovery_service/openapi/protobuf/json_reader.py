"""JSON text into values that keep what the protobuf form has to repeat: the digits of numbers."""

import json
from typing import TypeAlias, cast

from apidiscovery_service.openapi.errors import InvalidOpenAPI


class Number(str):
    """A number as the text writes it: `1.0` is not `1`."""

    __slots__ = ()


Value: TypeAlias = "dict[str, Value] | list[Value] | str | bool | None"


def parse(document: bytes) -> Value:
    """Return the value of JSON text; its numbers are of type `Number`.

    Of two equal keys the last counts.

    Raises:
        InvalidOpenAPI: It is not UTF-8, not JSON, or nests deeper than the interpreter recurses.
    """
    try:
        value = cast("Value", _DECODER.decode(document.decode()))
    except UnicodeDecodeError as error:
        raise InvalidOpenAPI((), f"byte {error.start}: want UTF-8: {error.reason}") from None
    except json.JSONDecodeError as error:
        raise InvalidOpenAPI((), f"character {error.pos}: want JSON: {error.msg}") from None
    except ValueError as error:
        raise InvalidOpenAPI((), f"want JSON: {error}") from None
    except RecursionError:
        raise InvalidOpenAPI((), "it is nested too deeply to be read") from None
    return value


def _refuse_constant(name: str) -> Value:
    raise ValueError(f"{name} is no number in JSON")


_DECODER = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=_refuse_constant)
