"""JSON text as Go's encoding/json writes it, by the standard library.

Go escapes five more characters than JSON requires, for HTML and JavaScript: encoding/json
`appendString` with escapeHTML. A lone surrogate, which UTF-8 cannot encode, becomes U+FFFD, as in
Go.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

JSONValue: TypeAlias = (
    bool | int | float | str | Sequence["JSONValue"] | Mapping[str, "JSONValue"] | None
)

# In JSON text these occur in strings only.
ESCAPES = tuple((character, f"\\u{ord(character):04x}") for character in "<>&\u2028\u2029")

_SURROGATE = re.compile("[\ud800-\udfff]")


def dumps(value: object) -> str:
    """Return compact JSON, keys in the order of the mappings, without a line feed at the end."""
    return _as_go(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def dumps_indented(value: object, spaces: int) -> str:
    """Return JSON in lines, each level indented by so many spaces, without a line feed at the end.

    API servers indent by 2, kubectl by 4.
    """
    return _as_go(json.dumps(value, ensure_ascii=False, indent=spaces))


def without_surrogates(text: str) -> str:
    """Return text with U+FFFD for each lone surrogate, as Go reads it."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def _as_go(text: str) -> str:
    for character, escape in ESCAPES:
        text = text.replace(character, escape)
    return without_surrogates(text)
