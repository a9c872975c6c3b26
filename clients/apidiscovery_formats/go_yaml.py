"""YAML as Kubernetes' `application/yaml` writes it, byte for byte, from a JSON value.

Kubernetes has no YAML encoder of its own: `Serializer.doEncode` (apimachinery
`pkg/runtime/serializer/json/json.go`) makes JSON and hands it to `JSONToYAML` of sigs.k8s.io/yaml
(v1.6.0 in Kubernetes v1.34), which reads it into plain maps and writes those with
go.yaml.in/yaml/v2 (v2.4.2). File names below are those of go.yaml.in/yaml/v2. Pitfalls:

- Keys are not in the order of their code points: `v2` stands before `v10`, a digit before letters.
- Quotes depend on what a reader of *YAML 1.1* would take the string for: `y`, `off`, `0x1F`,
  `1:30` and `2020-1-1` are in double quotes; `1e999`, `=` and `<<` have none.
- A string is folded at the first lone space past column 80; a key of up to 128 bytes never is.

`JSONToYAML` reads its JSON *as YAML*, so some strings change or fail. It takes U+0085 for a
line break and fails on the other characters from U+007F to U+009F, on U+FFFE and U+FFFF, and on
keys of more than 1024 characters, quotes included. No name that Kubernetes serves is like that;
here they are written like any other string.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cmp_to_key, lru_cache
from types import NoneType
from typing import NamedTuple

from apidiscovery_formats.go_json import JSONValue
from apidiscovery_formats.go_text import float_text
from apidiscovery_formats.yaml_scalars import (
    ANY_BREAK,
    BREAKS,
    NOT_PLAIN,
    PRINTABLE,
    WORDS,
    Style,
    escaped,
    is_number_or_date,
    literal,
)

_BEST_WIDTH = 80  # columns: emitterc.go, yaml_emitter_emit_stream_start
_BEST_INDENT = 2  # columns: there too
_MAX_SIMPLE_KEY_BYTES = 128  # emitterc.go, yaml_emitter_check_simple_key


def text(value: JSONValue) -> str:
    """The whole document of *value*, as `JSONToYAML` writes it for the same JSON.

    Mappings are in the order of go-yaml's `keyList` (sorter.go), whatever order they came in.
    Block style, but for `[]` and `{}`; a sequence as far left as the key it belongs to. An int
    beyond 64 bits is written as a float, which is how go-yaml reads it.

    Ends with a line break, except where the document ends in a literal block whose last
    character is U+2028 or U+2029: go-yaml takes that for the line break.

    A float that is not finite, for which JSON has no text, is as go-yaml writes it; a lone
    surrogate is kept.

    >>> print(text({"v10": "y", "v2": [{}, None, "a: b"]}), end="")
    v2:
    - {}
    - null
    - 'a: b'
    v10: "y"
    """
    out: list[str] = []
    if isinstance(value, _LEAVES) or not value:
        out.append(_line(value, 0, _BEST_INDENT))
    else:
        _write_node(out, value, "")
    return "".join(out)


def dump(value: JSONValue) -> bytes:
    """Return the `text` of a value in UTF-8.

    Raises:
        UnicodeEncodeError: A string holds a lone surrogate.
    """
    return text(value).encode()


def dump_item(value: JSONValue) -> bytes:
    r"""One element of a block sequence.

    The elements one after the other are the sequence, so a list under a key of the document can
    be put together from parts that were written earlier:

    >>> parts = [{"b": 1}, ["x", "y"]]
    >>> b"items:\n" + b"".join(dump_item(part) for part in parts) == dump({"items": parts})
    True

    Raises:
        UnicodeEncodeError: As `dump`.
    """
    out: list[str] = []
    _write_node(out, value, "- ")
    return "".join(out).encode()


# --------------------------------------------------------------------------------------------------
# Nodes. `lead` is what already stands on the line, and its length is the indentation of the node:
# a mapping that begins after "- " has its other keys below its first one.

_LEAVES = (str, int, float, NoneType)


def _write_node(out: list[str], value: JSONValue, lead: str) -> None:
    if isinstance(value, _LEAVES) or not value:
        out.append(lead + _line(value, len(lead), len(lead)))
    elif isinstance(value, Mapping):
        _write_mapping(out, value, lead)
    else:
        _write_sequence(out, value, lead)


def _write_sequence(out: list[str], value: Sequence[JSONValue], lead: str) -> None:
    pad = " " * len(lead)
    for item in value:
        _write_node(out, item, lead + "- ")
        lead = pad


def _write_mapping(out: list[str], value: Mapping[str, JSONValue], lead: str) -> None:
    pad = " " * len(lead)
    for key in _in_go_order(tuple(value)):
        simple = _simple_key(key)
        if simple is None:
            out.append(lead + "? " + _string_line(key, len(pad) + 2, len(pad) + 2))
            _write_node(out, value[key], pad + ": ")
        else:
            _write_value(out, value[key], lead + simple + ":", pad)
        lead = pad


def _write_value(out: list[str], value: JSONValue, start: str, pad: str) -> None:
    """What follows a simple key: *start* is the line up to its colon, *pad* its indentation."""
    if isinstance(value, _LEAVES) or not value:
        out.append(f"{start} {_line(value, len(start) + 1, len(pad) + _BEST_INDENT)}")
        return
    out.append(start + "\n")
    if isinstance(value, Mapping):
        _write_mapping(out, value, pad + " " * _BEST_INDENT)
    else:
        _write_sequence(out, value, pad)


def _line(value: JSONValue, column: int, indent: int) -> str:
    """A scalar or an empty collection that begins at *column*, to the end of its last line.

    Its lines after the first are indented by *indent*.
    """
    if isinstance(value, str):
        return _string_line(value, column, indent)
    if value is None:
        return "null\n"
    if isinstance(value, bool):
        return "true\n" if value else "false\n"
    if isinstance(value, (int, float)):
        return _number(value) + "\n"
    return "{}\n" if isinstance(value, Mapping) else "[]\n"


# --------------------------------------------------------------------------------------------------
# Numbers: what resolve.go makes of the JSON text, then encode.go, intv, uintv and floatv.


def _number(value: float) -> str:
    if isinstance(value, float):
        return _float(value)
    if -(2**63) <= value < 2**64:
        return str(value)
    try:
        return _float(float(value))
    except OverflowError:  # to go-yaml neither an int nor a float, so a string
        return str(value)


_NOT_FINITE = {"+Inf": ".inf", "-Inf": "-.inf", "NaN": ".nan"}


def _float(value: float) -> str:
    written = float_text(value)
    return _NOT_FINITE.get(written, written)


# --------------------------------------------------------------------------------------------------
# Style of a string: asked for by encode.go, stringv; granted or refused by emitterc.go,
# yaml_emitter_select_scalar_style, for what yaml_emitter_analyze_scalar found in the text.


class _Scalar(NamedTuple):
    style: Style
    body: str  # escaped, without its quotes, not yet folded
    whole: str | None  # with its quotes; None if it has line breaks wherever it stands


_ONLY_DOUBLE_QUOTED = re.compile(f"[^{PRINTABLE}]| [{BREAKS}]")
_NOT_SINGLE_QUOTED = re.compile(f"[{BREAKS}] ")


def _style(value: str) -> Style:
    if _ONLY_DOUBLE_QUOTED.search(value):
        return Style.DOUBLE_QUOTED
    if "\n" in value:
        return Style.DOUBLE_QUOTED if value.endswith(" ") else Style.LITERAL
    if _resolves(value):
        return Style.DOUBLE_QUOTED
    if not NOT_PLAIN.search(value):
        return Style.PLAIN
    return Style.DOUBLE_QUOTED if _NOT_SINGLE_QUOTED.search(value) else Style.SINGLE_QUOTED


@lru_cache(maxsize=16_384)
def _scalar(value: str) -> _Scalar:
    style = _style(value)
    if style is Style.LITERAL:
        return _Scalar(style, value, None)
    if style is Style.DOUBLE_QUOTED:
        value = escaped(value)
    elif style is Style.SINGLE_QUOTED:
        value = value.replace("'", "''")
    quote = style.value
    return _Scalar(style, value, None if _KEPT_BREAK.search(value) else quote + value + quote)


_KEPT_BREAK = re.compile("([\u2028\u2029])")


# --------------------------------------------------------------------------------------------------
# What a string would be to a reader if it had no quotes: resolve.go, resolve and parseTimestamp;
# encode.go, isBase60Float.

_WORDS = WORDS | {
    *("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"),
    *("n", "N", "no", "No", "NO", "off", "Off", "OFF"),
}

_BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")


def _resolves(value: str) -> bool:
    """Whether *value* without quotes would be read as something else than a string."""
    return value in _WORDS or is_number_or_date(value) or _BASE_60.fullmatch(value) is not None


# --------------------------------------------------------------------------------------------------
# Layout of a string: emitterc.go, yaml_emitter_write_plain_scalar and its three siblings.

_LONE_SPACE = re.compile(r"(?<=[^ ]) (?=[^ ])")
_FIRST_SPACE = re.compile(r"(?<=[^ ]) (?!\Z)")


def _string_line(value: str, column: int, indent: int) -> str:
    style, body, whole = _scalar(value)
    if whole is not None and column + len(whole) <= _BEST_WIDTH:
        return whole + "\n"
    if style is Style.LITERAL:
        return literal(body, indent, _BEST_INDENT)
    quote = style.value
    column += len(quote)
    if style is Style.DOUBLE_QUOTED:
        text = _fold(body, column, indent, _FIRST_SPACE)
    else:
        text = _fold_lines(body, column, indent)
    return f"{quote}{text}{quote}\n"


def _fold_lines(body: str, column: int, indent: int) -> str:
    """Fold each line of *body*, which keeps its own line breaks, and indent those after them."""
    pad = " " * indent
    lines = _KEPT_BREAK.split(body)  # every second one is a line break
    folded = [_fold(lines[0], column, indent, _LONE_SPACE)]
    for line_break, line in zip(lines[1::2], lines[2::2], strict=True):
        folded.append(line_break)
        if line:
            folded.append(pad + _fold(line, indent, indent, _LONE_SPACE))
    return "".join(folded)


def _fold(text: str, column: int, indent: int, spaces: re.Pattern[str]) -> str:
    """Put a line break in place of each of *spaces* that stands past the best width."""
    folded: list[str] = []
    done = 0
    for space in spaces.finditer(text):
        if column + space.start() - done <= _BEST_WIDTH:
            continue
        folded += text[done : space.start()], "\n", " " * indent
        done = space.end()
        column = indent
        if text.startswith(" ", done):  # a reader would take it for indentation
            folded.append("\\")
            column += 1
    folded.append(text[done:])
    return "".join(folded)


# --------------------------------------------------------------------------------------------------
# Keys.

_NUMBER = re.compile(r"\d*")  # Unicode's decimal digits, as Go's unicode.IsDigit
_COUNTS = re.compile(r"[^\D0]\d*\Z")


@lru_cache(maxsize=4_096)
def _simple_key(key: str) -> str | None:
    """*key* as it stands before `:`, or None if it stands after `?` (check_simple_key)."""
    if len(key.encode(errors="surrogatepass")) > _MAX_SIMPLE_KEY_BYTES or ANY_BREAK.search(key):
        return None
    return _scalar(key).whole


@lru_cache(maxsize=1_024)
def _in_go_order(keys: tuple[str, ...]) -> tuple[str, ...]:
    """*keys* in the order of sorter.go, keyList.Less: of letters alone, that of code points.

    Less goes round in circles for some keys with numbers: `01` < `0b` < `1a` < `01`. Go writes
    those in an order that changes from call to call; here it is always the same.
    """
    by_code_point = tuple(sorted(keys))
    if all(map(str.isalpha, keys)):
        return by_code_point
    return tuple(sorted(by_code_point, key=cmp_to_key(_compare)))


def _compare(a: str, b: str) -> int:
    for at, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return -1 if _less_at(a, b, at) else 1
    return len(a) - len(b)


def _less_at(a: str, b: str, at: int) -> bool:
    """Whether *a* stands before *b*; *at* is the first position where they differ.

    1. Two letters (`str.isalpha` is Go's `unicode.IsLetter`, but for the newest letters, which
       depend on the version of Unicode): by code point.
    2. One letter: after what is none.
    3. Else by the number that begins here, 0 if none does, then its length, then code point. A 0
       inside a number counts as a digit, other than one at its start.
    """
    x, y = a[at], b[at]
    if x.isalpha() or y.isalpha():
        return x < y if x.isalpha() and y.isalpha() else y.isalpha()
    before = "1" if "0" in {x, y} and _COUNTS.search(a[:at]) else ""
    return _number_key(before, a, at) < _number_key(before, b, at)


def _number_key(before: str, text: str, at: int) -> tuple[int, int, str]:
    match = _NUMBER.match(text, at)
    digits = before + (match[0] if match else "")
    value = 0
    for digit in digits:
        value = (value * 10 + ord(digit) - ord("0")) % 2**64
    wrapped = (value + 2**63) % 2**64 - 2**63  # as an int64 of Go
    return wrapped, len(digits), text[at]
