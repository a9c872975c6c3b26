"""The rules for values: a table of keywords, and whether all values of one schema meet another.

What is proven by analysis is true, what an example disproves is false, and the rest is unknown.
"""

import itertools
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeAlias

from apidiscovery_formats.json_values import as_list, as_object

from apidiscovery_client.schema_diff import cel
from apidiscovery_client.schema_diff.examples import Examples, all_values
from apidiscovery_client.schema_diff.patterns import UndecidableError, find_string
from apidiscovery_client.schema_diff.schemas import Schema
from apidiscovery_client.schema_diff.validating import IGNORED_FORMATS, all_of, canonical, meets


@dataclass(frozen=True, slots=True)
class Family:
    """Keywords that limit the same thing, and so change together.

    Attributes:
        name: Of the rule; `-added`, `-removed` or `-changed` follows.
        keywords: That belong to it; the first is named in a change.
        check: The key of `validating.KEYWORDS` that validates it.
        proves: Tells that every value of the first schema meets the second; never wrongly so.
    """

    name: str
    keywords: tuple[str, ...]
    check: str
    proves: Callable[[Schema, Schema], bool]

    def value(self, schema: Schema) -> object:
        """Return what a schema says, as a change shows it; None where it says nothing."""
        told = {key: schema.get(key) for key in self.keywords if schema.get(key) is not None}
        if set(told) <= {self.keywords[0]}:
            return told.get(self.keywords[0])
        return told


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether all values of a schema meet a keyword of another; None with a reason."""

    holds: bool | None
    reason: str = ""


def _minimum(old: Schema, new: Schema) -> bool:
    low, limit = old.limit("minimum"), new.limit("minimum")
    if limit is None:
        return True
    if low is None or low < limit:
        return False
    strict = new.get("exclusiveMinimum") is True and old.get("exclusiveMinimum") is not True
    return low > limit or not strict


def _maximum(old: Schema, new: Schema) -> bool:
    high, limit = old.limit("maximum"), new.limit("maximum")
    if limit is None:
        return True
    if high is None or high > limit:
        return False
    strict = new.get("exclusiveMaximum") is True and old.get("exclusiveMaximum") is not True
    return high < limit or not strict


def _multiple(old: Schema, new: Schema) -> bool:
    limit, step = new.limit("multipleOf"), old.limit("multipleOf")
    if not limit:
        return True
    if limit.denominator != 1:
        return step == limit
    if "number" not in old.kinds and limit == 1:
        return True
    return step is not None and (step / limit).denominator == 1


def _at_least(keyword: str) -> Callable[[Schema, Schema], bool]:
    def proves(old: Schema, new: Schema) -> bool:
        limit = new.limit(keyword) or 0
        return (old.limit(keyword) or 0) >= limit

    return proves


def _at_most(keyword: str) -> Callable[[Schema, Schema], bool]:
    def proves(old: Schema, new: Schema) -> bool:
        limit, high = new.limit(keyword), old.limit(keyword)
        return limit is None or (high is not None and high <= limit)

    return proves


def _length(old: Schema, new: Schema) -> bool:
    if _at_least("minLength")(old, new) and _at_most("maxLength")(old, new):
        return True
    pattern = old.get("pattern")
    if not isinstance(pattern, str):
        return False
    least, most = new.limit("minLength"), new.limit("maxLength")
    try:
        too_short = least and find_string([pattern], most=int(least) - 1)
        too_long = most is not None and find_string([pattern], least=int(most) + 1)
    except UndecidableError:
        return False
    return too_short in (None, 0) and too_long in (None, False)


def _count(least: str, most: str) -> Callable[[Schema, Schema], bool]:
    def proves(old: Schema, new: Schema) -> bool:
        return _at_least(least)(old, new) and _at_most(most)(old, new)

    return proves


def _properties_count(old: Schema, new: Schema) -> bool:
    least, most = new.limit("minProperties"), new.limit("maxProperties")
    named = len(old.properties) if old.additional is None and not old.embedded else None
    known = old.limit("maxProperties")
    counts = [one for one in (named, known) if one is not None]
    low = max(len(old.required), old.limit("minProperties") or 0)
    return (least is None or low >= least) and (
        most is None or (bool(counts) and min(counts) <= most)
    )


def _pattern(old: Schema, new: Schema) -> bool:
    pattern, known = new.get("pattern"), old.get("pattern")
    if not isinstance(pattern, str) or pattern == known or "string" not in old.kinds:
        return True
    most = old.limit("maxLength")
    try:
        found = find_string(
            [known] if isinstance(known, str) else [],
            pattern,
            least=int(old.limit("minLength") or 0),
            most=None if most is None else int(most),
        )
    except UndecidableError:
        return False
    return found is None


def _format(old: Schema, new: Schema) -> bool:
    name = new.get("format") or ""
    if name in IGNORED_FORMATS or name == old.get("format"):
        return True
    low, high = old.limit("minimum"), old.limit("maximum")
    within = low is not None and low >= -(2**31) and high is not None and high < 2**31
    return name == "int32" and old.kinds == frozenset({"integer"}) and within


def _enum(old: Schema, new: Schema) -> bool:
    known = old.get("enum")
    if new.get("enum") is None:
        return True
    allowed = {canonical(one) for one in as_list(new.get("enum"))}
    return known is not None and {canonical(one) for one in as_list(known)} <= allowed


def _unique(old: Schema, new: Schema) -> bool:
    most = old.limit("maxItems")
    if (most is not None and most <= 1) or "array" not in old.kinds:
        return True
    wants_set = new.get("uniqueItems") is True or new.list_type == "set"
    if wants_set:
        return old.get("uniqueItems") is True or old.list_type == "set"
    if new.list_type == "map":
        return old.list_type == "map" and set(old.list_map_keys) <= set(new.list_map_keys)
    return True


def _implies(old: Schema, branch: object) -> bool:
    """Tell that every value of a schema is valid under a branch of logic; never wrongly so."""
    told = Schema(as_object(branch), old.resolve)
    if "type" in told.keywords and not old.kinds <= told.kinds:
        return False
    if old.nullable and told.keywords:
        return False
    if not told.required <= old.required:
        return False
    if told.keywords.keys() & {"$ref", "additionalProperties", "items"}:
        return False
    for name, inner in told.properties.items():
        field = old.read(old.properties[name]) if name in old.properties else None
        if field is None or not _implies(field, inner):
            return False
    return all(family.proves(old, told) for family in FAMILIES)


def _all(old: Schema, new: Schema) -> bool:
    known = {canonical(one) for one in as_list(old.get("allOf"))}
    return all(canonical(one) in known or _implies(old, one) for one in as_list(new.get("allOf")))


def _any(old: Schema, new: Schema) -> bool:
    wanted, known = as_list(new.get("anyOf")), as_list(old.get("anyOf"))
    if not wanted or any(_implies(old, one) for one in wanted):
        return True
    texts = {canonical(one) for one in wanted}
    return bool(known) and all(
        canonical(one) in texts
        or any(_implies(Schema(as_object(one), old.resolve), other) for other in wanted)
        for one in known
    )


def _one(old: Schema, new: Schema) -> bool:
    wanted, known = as_list(new.get("oneOf")), as_list(old.get("oneOf"))
    return not wanted or sorted(map(canonical, wanted)) == sorted(map(canonical, known))


def _not(old: Schema, new: Schema) -> bool:
    return new.get("not") is None or canonical(new.get("not")) == canonical(old.get("not"))


FAMILIES: tuple[Family, ...] = (
    Family("enum", ("enum",), "enum", _enum),
    Family("minimum", ("minimum", "exclusiveMinimum"), "minimum", _minimum),
    Family("maximum", ("maximum", "exclusiveMaximum"), "maximum", _maximum),
    Family("multiple-of", ("multipleOf",), "multipleOf", _multiple),
    Family("length", ("minLength", "maxLength"), "length", _length),
    Family("pattern", ("pattern",), "pattern", _pattern),
    Family("format", ("format",), "format", _format),
    Family("items-count", ("minItems", "maxItems"), "items-count", _count("minItems", "maxItems")),
    Family("unique-items", ("uniqueItems",), "unique", _unique),
    Family(
        "properties-count",
        ("minProperties", "maxProperties"),
        "properties-count",
        _properties_count,
    ),
    Family("all-of", ("allOf",), "allOf", _all),
    Family("any-of", ("anyOf",), "anyOf", _any),
    Family("one-of", ("oneOf",), "oneOf", _one),
    Family("not", ("not",), "not", _not),
)
_HINTED = 1_500  # candidates in a search with what rules name
_MAX_HINTS = 30
LIST_TYPE = Family("list-type", ("x-kubernetes-list-type",), "unique", _unique)

_REASONS: Mapping[str, str] = {
    "pattern": "whether every string that was valid matches the pattern is not decided",
    "format": "what of the old strings has the format is not decided",
}


_Asked: TypeAlias = tuple[str, str, int, str, int]
_ANSWERS: ContextVar[dict[_Asked, Answer] | None] = ContextVar("_ANSWERS", default=None)


@contextmanager
def answers_kept() -> Generator[None]:
    """Keep answers until the end: the kinds of a document have parts in common.

    Every kind with a pod template asks the same. Without it, Kubernetes 1.27 with 1.36 takes four
    times as long.
    """
    kept = _ANSWERS.set({})
    try:
        yield
    finally:
        _ANSWERS.reset(kept)


def decide(family: Family, old: Schema, new: Schema) -> Answer:
    """Tell whether every value of a schema meets what another says of one thing."""
    kept = _ANSWERS.get()
    if kept is None:
        return _decided(family, old, new)
    before, after = canonical(old.keywords), canonical(new.keywords)
    asked = (family.name, before, _document(old), after, _document(new))
    if asked not in kept:
        kept[asked] = _decided(family, old, new)
    return kept[asked]


def _document(schema: Schema) -> int:
    """Return what tells documents apart; a method of one is another object each time."""
    return id(getattr(schema.resolve, "__self__", schema.resolve))


def _decided(family: Family, old: Schema, new: Schema) -> Answer:
    if not old.kinds & new.kinds:
        return Answer(holds=True)  # the types differ; that is a change of its own
    if family.proves(old, new):
        return Answer(holds=True)
    values = all_values(old)
    if values is not None:
        answers = [meets(new, family.check, value) for value in values]
        told = all_of(answers)
        if told is not None:
            return Answer(told)
    for value in Examples().of(old, new):
        if value is not None and meets(new, family.check, value) is False:
            return Answer(holds=False)
    reason = _REASONS.get(family.name, f"no proof and no example for {family.keywords[0]}")
    return Answer(None, reason)


def decide_rule(rule: str, old: Schema, new: Schema) -> Answer:
    """Tell whether every value of a schema meets a CEL rule, which `new` may have."""
    if cel.is_transition(rule):
        return Answer(None, "the rule compares with the object before")
    values = all_values(old)
    if values is not None:
        told = all_of(cel.holds(rule, value) for value in values)
        if told is not None:
            return Answer(told)
    several = (Examples().of(old, new), Examples(_HINTED).of(old, new, _hints(old, new)))
    for value in itertools.chain.from_iterable(several if cel.parsed(rule) is not None else ()):
        if value is not None and cel.holds(rule, value) is False:
            return Answer(holds=False)
    return Answer(None, "the CEL rule is neither shown to hold nor to fail")


def _hints(old: Schema, new: Schema) -> tuple[object, ...]:
    """Return what rules of both name: the same for each of them, so that it is searched once."""
    rules = [
        str(as_object(one).get("rule"))
        for schema in (old, new)
        for one in as_list(schema.get("x-kubernetes-validations"))
    ]
    near = {
        number + step for rule in rules for number in cel.numbers_in(rule) for step in (-1, 0, 1)
    }
    texts = sorted({text for rule in rules for text in cel.texts_in(rule)})
    return (*sorted(near)[:_MAX_HINTS], *texts[:_MAX_HINTS])
