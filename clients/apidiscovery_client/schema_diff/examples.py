"""Values that are valid under a schema, chosen to fail under another one."""

import itertools
import math
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from typing import TypeAlias, cast

from apidiscovery_formats.json_values import as_list, as_object

from apidiscovery_client.schema_diff.patterns import UndecidableError, find_string
from apidiscovery_client.schema_diff.schemas import (
    ALL_KINDS,
    NO_DEFAULT,
    NOTHING,
    Schema,
    as_number,
)
from apidiscovery_client.schema_diff.validating import BAD_TEXT, FORMATS, canonical, treat, valid

_MAX_EXAMPLES = 48
_MAX_INNER = 12  # of objects and lists in others, which grow with each level
_MAX_CANDIDATES = 400
_MAX_DEPTH = 6
_MAX_ITEMS = 70
_MAX_PAIRED = 7
_LOGIC = ("allOf", "anyOf", "oneOf")
_SCALARS = frozenset({"string", "integer", "number", "boolean"})
# Of values of any type, that is how deep they are looked at.
_ANYTHING: tuple[object, ...] = (
    {"example": 1},
    [1, 1],
    [{"example": 1}],
    {},
    [],
    {"example": {"example": [1, "a"]}},
)


_Key: TypeAlias = tuple[object, ...]


class _Search:
    """A search that goes on where the last reader stopped, also one that ended at its budget.

    Both schemas are kept with it, so that no other gets their identity.
    """

    def __init__(self, old: Schema, new: Schema, values: Iterator[object]) -> None:
        self._of = old.keywords, new.keywords
        self._found = list[object]()
        self._rest = values

    def __iter__(self) -> Iterator[object]:
        at = 0
        while True:
            if at == len(self._found):
                try:
                    self._found.append(next(self._rest))
                except StopIteration:
                    return
            yield self._found[at]
            at += 1


_SEARCHES: ContextVar[dict[_Key, _Search] | None] = ContextVar("_SEARCHES", default=None)


@contextmanager
def remembered() -> Generator[None]:
    """Keep what is found until the end: a schema's rules, and those around it, ask for the same."""
    searches = _SEARCHES.set({})
    try:
        yield
    finally:
        _SEARCHES.reset(searches)


class Examples:
    """A search for valid values; it ends after a number of them, whatever the schemas.

    Args:
        budget: How many candidates are validated at most.
        raw: Return them as they would be in a manifest, without defaults.
        doubtful: Return also those that may be valid.
    """

    def __init__(self, budget: int = 6_000, *, raw: bool = False, doubtful: bool = False) -> None:
        self._left = budget
        self._raw = raw
        self._doubtful = doubtful

    def of(self, old: Schema, new: Schema, hints: Iterable[object] = ()) -> Iterator[object]:
        """Yield treated values that are valid under `old`, with what `new` says in mind."""
        several = tuple(hints)
        known = _SEARCHES.get()
        if known is None or old.resolve is not None or new.resolve is not None:
            yield from self._search(old, new, 0, several)
            return
        texts = tuple(map(canonical, several))
        key = (id(old.keywords), id(new.keywords), texts, self._left, self._raw, self._doubtful)
        if key not in known:
            known[key] = _Search(old, new, self._search(old, new, 0, several))
        yield from known[key]

    def _valid(
        self, old: Schema, new: Schema, depth: int, hints: tuple[object, ...]
    ) -> list[object]:
        return list(self._search(old, new, depth, hints))

    def _search(
        self, old: Schema, new: Schema, depth: int, hints: tuple[object, ...]
    ) -> Iterator[object]:
        found = set[str]()
        composite = bool(old.kinds & {"object", "array"}) and depth > 0
        most = _MAX_INNER if composite else _MAX_EXAMPLES
        several = itertools.chain(hints, self._candidates(old, new, depth, hints))
        for candidate in itertools.islice(several, _MAX_CANDIDATES):
            if self._left <= 0 or len(found) >= most:
                break
            yield from self._if_valid(old, candidate, found)
        if old.nullable:
            yield from self._if_valid(old, None, found)

    def _if_valid(self, old: Schema, candidate: object, found: set[str]) -> Iterator[object]:
        self._left -= 1
        value = treat(old, candidate)
        told = valid(old, value)
        if told is True or (self._doubtful and told is None):
            kept = candidate if self._raw else value
            text = canonical(kept)
            if text not in found:
                found.add(text)
                yield kept

    def _candidates(
        self, old: Schema, new: Schema, depth: int, hints: tuple[object, ...]
    ) -> Iterator[object]:
        for schema in (old, new):
            yield from as_list(schema.get("enum"))
            if schema.default is not NO_DEFAULT:
                yield schema.default
        kinds = old.kinds
        if old.kinds == ALL_KINDS and old.preserves and not old.properties:
            yield from _ANYTHING
            kinds = _SCALARS
        if depth > _MAX_DEPTH:
            kinds &= _SCALARS
        if "string" in kinds:
            yield from _strings(old, new)
        if "integer" in kinds:
            yield from _numbers(old, new, fractions="number" in kinds)
        if "boolean" in kinds:
            yield from (True, False)
        if "array" in kinds:
            yield from self._arrays(old, new, depth, hints)
        if "object" in kinds:
            yield from self._objects(old, new, depth, hints)
        yield from self._branches(old, new, depth, hints)

    def _branches(
        self, old: Schema, new: Schema, depth: int, hints: tuple[object, ...]
    ) -> Iterator[object]:
        without, plain = _without_logic(old), _without_logic(new)
        for source, keyword in itertools.product((old, new), _LOGIC):
            for branch in as_list(source.get(keyword)):
                merged = Schema(_merged(without.keywords, as_object(branch)), old.resolve)
                yield from self._candidates(merged, plain, depth + 1, hints)
        if new.get("not") is not None:
            merged = Schema(_merged(without.keywords, as_object(new.get("not"))), old.resolve)
            yield from self._candidates(merged, NOTHING, depth + 1, hints)

    def _arrays(
        self, old: Schema, new: Schema, depth: int, hints: tuple[object, ...]
    ) -> Iterator[object]:
        items = self._valid(old.items, new.items, depth + 1, hints)
        yield []
        if not items:
            return
        for one in items:
            yield [one]
        for size in _sizes(old, new, "minItems", "maxItems"):
            yield (items * (size // len(items) + 1))[:size]
            yield [items[0]] * size
        yield [items[0], items[0]]
        if len(items) > 1:
            yield from map(list, itertools.combinations(items[:_MAX_PAIRED], 2))

    def _objects(
        self, old: Schema, new: Schema, depth: int, hints: tuple[object, ...]
    ) -> Iterator[object]:
        values = dict[str, list[object]]()
        for name, raw in old.properties.items():
            inner = new.field(name) or NOTHING
            values[name] = self._valid(old.read(raw), inner, depth + 1, hints)
        least = {name: values[name][0] for name in old.required if values.get(name)}
        if old.embedded:
            least = {"apiVersion": "example.com/v1", "kind": "Example", **least}
        additional = old.additional
        if additional is not None:
            yield from self._maps(old, new, least, depth, hints)
        yield {name: value for name, value in least.items() if not _has_default(old, name)}
        yield least
        everything = {**{name: many[0] for name, many in values.items() if many}, **least}
        yield everything
        # The first example of every field, then the second: no field uses up the search.
        for at in range(max(map(len, values.values()), default=0)):
            for name, many in values.items():
                if at < len(many):
                    yield {**least, name: many[at]}
                    yield {**everything, name: many[at]}
        for two in itertools.combinations(values, 2):
            yield {**least, **{name: values[name][0] for name in two if values[name]}}

    def _maps(
        self,
        old: Schema,
        new: Schema,
        least: Mapping[str, object],
        depth: int,
        hints: tuple[object, ...],
    ) -> Iterator[object]:
        additional = old.additional or NOTHING
        many = self._valid(additional, new.additional or NOTHING, depth + 1, hints)
        for size in _sizes(old, new, "minProperties", "maxProperties"):
            if many:
                fill = size - len(least)
                yield {**least, **{f"example{at}": many[0] for at in range(fill)}}
        for name, raw in new.properties.items():
            if name not in old.properties:
                for one in self._valid(additional, new.read(raw), depth + 1, hints)[:8]:
                    yield {**least, name: one}
        for one in many:
            yield {**least, "example": one}


def _has_default(schema: Schema, name: str) -> bool:
    raw = schema.properties.get(name)
    return raw is not None and schema.read(raw).default is not NO_DEFAULT


def _without_logic(schema: Schema) -> Schema:
    several = (*_LOGIC, "not")
    keywords = {key: value for key, value in schema.keywords.items() if key not in several}
    return Schema(keywords, schema.resolve)


def _merged(one: Mapping[str, object], other: Mapping[str, object]) -> dict[str, object]:
    """Return a schema that is roughly both; what it describes is validated anyway."""
    found: dict[str, object] = {**one, **other}
    if "properties" in one and "properties" in other:
        left, right = as_object(one["properties"]), as_object(other["properties"])
        found["properties"] = {
            name: _merged(as_object(left.get(name)), as_object(right.get(name)))
            for name in {**left, **right}
        }
    if "required" in one and "required" in other:
        found["required"] = [*as_list(one["required"]), *as_list(other["required"])]
    return found


def _sizes(old: Schema, new: Schema, least: str, most: str) -> list[int]:
    edges = {
        int(limit) + step
        for schema, keyword in itertools.product((old, new), (least, most))
        if (limit := schema.limit(keyword)) is not None
        for step in (-1, 0, 1)
    }
    return sorted(size for size in edges if 0 < size <= _MAX_ITEMS)


def _strings(old: Schema, new: Schema) -> Iterator[object]:
    patterns = [one for one in (old.get("pattern"), *_branch_patterns(old)) if isinstance(one, str)]
    least, most = old.limit("minLength"), old.limit("maxLength")
    low = math.ceil(least) if least is not None else 0
    high = math.floor(most) if most is not None else None
    others = [one for one in (new.get("pattern"), *_branch_patterns(new)) if isinstance(one, str)]
    below, above = new.limit("minLength"), new.limit("maxLength")
    searches: list[tuple[list[str], str | None, int, int | None]] = [
        *((patterns, other, low, high) for other in others),
        *((patterns, other, max(low, 1), high) for other in others),
        *(([*patterns, other], None, low, high) for other in others),
        (patterns, None, low, high),
        (patterns, None, max(low, 1), high),
    ]
    if below is not None and below > low:
        top = math.ceil(below) - 1
        searches.append((patterns, None, low, top if high is None else min(top, high)))
    if above is not None:
        searches.append((patterns, None, max(low, math.floor(above) + 1), high))
    for matched, unmatched, shortest, longest in searches:
        try:
            found = find_string(matched, unmatched, least=shortest, most=longest)
        except UndecidableError:
            continue
        if found is not None:
            yield found
    for schema in (new, old):
        if isinstance(schema.get("format"), str):
            yield FORMATS.get(str(schema.get("format")), "")
    yield from (BAD_TEXT, "", "a", "A0 _x", "0", "a" * low)


def _branch_patterns(schema: Schema) -> list[object]:
    return [
        as_object(branch).get("pattern")
        for keyword in _LOGIC
        for branch in as_list(schema.get(keyword))
    ]


def _numbers(old: Schema, new: Schema, *, fractions: bool) -> Iterator[object]:
    limits = {
        limit
        for schema in (old, new)
        for keyword in ("minimum", "maximum", "multipleOf")
        if (limit := schema.limit(keyword)) is not None
    }
    for schema in (old, new):
        for keyword in _LOGIC:
            for branch in as_list(schema.get(keyword)):
                told = as_object(branch)
                several = (as_number(told.get(key)) for key in ("minimum", "maximum"))
                limits.update(one for one in several if one is not None)
    wholes = {0, 1, -1, 2, 7, 2**31}
    for limit in limits:
        wholes.update(math.floor(limit) + step for step in (-1, 0, 1, 2))
    multiple = old.limit("multipleOf")
    if multiple:
        for whole in wholes:
            nearest = multiple * round(whole / multiple)
            yield from _as_json(
                (nearest, nearest + multiple, nearest - multiple), fractions=fractions
            )
    yield from _as_json([Fraction(one) for one in wholes], fractions=fractions)
    if fractions:
        if new.get("format") == "float":
            yield from (1e39, -1e39)
        halves = (Fraction(1, 2), Fraction(3, 2))
        yield from _as_json(
            [*halves, *(limit + half for limit in limits for half in halves)], fractions=True
        )
        yield from _as_json([limit - half for limit in limits for half in halves], fractions=True)


def _as_json(numbers: Iterable[Fraction], *, fractions: bool) -> Iterator[object]:
    for number in numbers:
        if number.denominator == 1:
            yield int(number)
        elif fractions and Fraction(str(float(number))) == number:
            yield float(number)


def all_values(schema: Schema) -> list[object] | None:
    """Return every value of a schema, or more, but for null; None where they are too many."""
    enum = schema.get("enum")
    converts = "number" in schema.kinds or schema.kinds == frozenset({"integer", "string"})
    if enum is not None and not converts and len(as_list(enum)) <= _MAX_CANDIDATES:
        return [one for one in as_list(enum) if one is not None and valid(schema, one) is not False]
    if schema.kinds == frozenset({"boolean"}):
        return [True, False]
    low, high = schema.limit("minimum"), schema.limit("maximum")
    if schema.kinds == frozenset({"integer"}) and low is not None and high is not None:
        first, last = math.ceil(low), math.floor(high)
        if last - first < _MAX_CANDIDATES:
            whole = cast("list[object]", list(range(first, last + 1)))
            return [one for one in whole if valid(schema, one) is not False]
    return None
