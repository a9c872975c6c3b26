"""Writing JSON in steps, as `stepwise_json` reads it."""

from collections.abc import Collection, Iterable, Iterator
from typing import Final, TypeAlias, cast

import orjson

_Key: TypeAlias = str | int
_CONTAINERS: Final = frozenset({dict, list})

# Values that are written at once, which takes less than 1 ms, and characters that count for one.
_AT_ONCE: Final = 2_000
_CHARACTERS: Final = 32
# How deep orjson writes objects and arrays in each other.
MAX_DEPTH: Final = 254
RECURSION: Final = "Recursion limit reached"


def dumps(value: object, option: int = 0) -> bytes:
    """Return what `orjson.dumps` does; of what is large a piece at a time.

    Raises:
        TypeError: As `orjson.dumps`, which is of `json.JSONEncodeError`'s kind.
    """
    if _weight(value) <= _AT_ONCE:
        return orjson.dumps(value, option=option)
    _check_depth(value)
    return b"".join(_pieces(value, option))


def is_large(value: object) -> bool:
    """Tell whether a value is written in pieces, which only threads should do."""
    return _weight(value) > _AT_ONCE


def _weight(value: object) -> int:
    """Return how much there is to write; not much more than `_AT_ONCE` where it is more."""
    weight = 0
    pending: list[Collection[object]] = [(value,)]
    for values in pending:  # which grows meanwhile: only what holds values is put off
        weight += len(values)
        if weight > _AT_ONCE:
            break
        for one in values:
            if isinstance(one, str):
                weight += len(one) // _CHARACTERS
            elif isinstance(one, dict):
                pending.append(cast("dict[object, object]", one).values())
            elif isinstance(one, list):
                pending.append(cast("list[object]", one))
    return weight


def _check_depth(value: object) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise orjson.JSONEncodeError(RECURSION)
        level = [inner for one in level for inner in _inside(one) if type(inner) in _CONTAINERS]


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[_Key, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()


def _pieces(value: object, option: int) -> Iterator[bytes]:
    """Yield the text of a value, which together is what `orjson.dumps` returns."""
    comma = b""
    if isinstance(value, dict):
        yield b"{"
        for batch in _batches(cast("dict[_Key, object]", value).items()):
            yield comma
            ((name, first), *more) = batch
            if not more and is_large(first):
                yield orjson.dumps({name: 0}, option=option)[1:-2]
                yield from _pieces(first, option)
            else:
                yield orjson.dumps(dict(batch), option=option)[1:-1]
            comma = b","
        yield b"}"
    elif isinstance(value, list):
        yield b"["
        for batch in _batches(enumerate(cast("list[object]", value))):
            yield comma
            if len(batch) == 1 and is_large(batch[0][1]):
                yield from _pieces(batch[0][1], option)
            else:
                yield orjson.dumps([item for _, item in batch], option=option)[1:-1]
            comma = b","
        yield b"]"
    else:
        yield orjson.dumps(value, option=option)


def _batches(members: Iterable[tuple[_Key, object]]) -> Iterator[list[tuple[_Key, object]]]:
    """Yield members as many as are written at once; one that is large is alone."""
    batch: list[tuple[_Key, object]] = []
    room = _AT_ONCE
    for name, value in members:
        weight = _weight(value) + 1
        if weight > room and batch:
            yield batch
            batch, room = [], _AT_ONCE
        batch.append((name, value))
        room -= weight
    if batch:
        yield batch
