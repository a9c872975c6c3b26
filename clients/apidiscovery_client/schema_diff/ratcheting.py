"""What an update that changes only metadata does to a stored object under the new schema.

Kubernetes tolerates the errors of values that did not change (KEP-4008, on since 1.30), in
k8s.io/apiextensions-apiserver, pkg/apiserver/validation/ratcheting.go. It compares values field by
field (k8s.io/apiserver, pkg/cel/common/equality.go, `CorrelatedObject`). So errors stand where

1. the object around is the whole one, whose metadata changes;
2. an object has a field that its schema does not name: it counts as changed, and so do those around
   it, but for atomic lists, which are compared as a whole;
3. a list of type map has two items of the same keys, or one without a key;
4. the evaluation of a CEL rule ends in an error, because it selects an absent field or a value
   has another type than the schema says; a rule that is false is tolerated;
5. a value of an embedded resource is none, wherever it is.

Everything in a list that is not of type map is tolerated, since such a list is compared whole.
"""

from collections.abc import Callable

from apidiscovery_formats.json_values import as_list, as_object

from apidiscovery_client.schema_diff.cel import errs, reads
from apidiscovery_client.schema_diff.cel_errors import never_errs
from apidiscovery_client.schema_diff.examples import Examples
from apidiscovery_client.schema_diff.locations import Location, across_one
from apidiscovery_client.schema_diff.model import Outcome, worst
from apidiscovery_client.schema_diff.schemas import NO_DEFAULT, Schema
from apidiscovery_client.schema_diff.validating import canonical, treat

_NOT_NAMED = "a stored object may have fields that its schema does not name, which end tolerance"
_DUPLICATES = "items of the same keys, or without one, end the tolerance of errors in them"
_RULE_MAY_FAIL = "a CEL rule around it may not be evaluated with a value of another type"


def when_broken(
    location: Location, old: Schema, new: Schema, outcome: Outcome, breaks: Callable[[object], bool]
) -> tuple[Outcome, str]:
    """Return what an update meets where manifests break a rule of these schemas, and why.

    Args:
        location: Of the value that has the error.
        old: The schema that the value was valid under.
        new: The schema with the rule.
        outcome: What becomes of a manifest.
        breaks: Tells that a value breaks the rule; never wrongly so.
    """
    if outcome == Outcome.FINE or location.position == "root":
        return outcome, ""
    if location.duplicates:
        return Outcome.UNKNOWN, _DUPLICATES
    if location.atomic or not _may_have_unnamed(old, new, frozenset()):
        return Outcome.FINE, ""
    for example in Examples().of(old, new):
        kept = treat(new, example)
        if breaks(kept) and not _is_compared(new, kept):
            return outcome, ""
    return Outcome.UNKNOWN, _NOT_NAMED


def when_treated(location: Location, treated: Outcome) -> tuple[Outcome, str]:
    """Return what pruning or defaults do to a stored object; rules around it may reject it."""
    found, reason = treated, ""
    for at, (old, new, _) in enumerate(location.above):
        is_root = location.whole and at == 0
        told, why = across_one(old, new, location.segments[at:], treated)
        if told == Outcome.REJECTED and not is_root:
            told, why = Outcome.UNKNOWN, _NOT_NAMED
        is_worse = worst((told, found)) != found
        if is_worse and (is_root or _may_have_unnamed(old, new, frozenset())):
            found, reason = told, why
    return found, reason


def when_rule_errs(location: Location, old: Schema, new: Schema, rule: str) -> tuple[Outcome, str]:
    """Return what an update meets where the evaluation of a new CEL rule ends in an error."""
    if location.position == "root" or never_errs(rule, old, new):
        return Outcome.FINE, ""
    for example in Examples().of(old, new):
        if example is not None and errs(rule, treat(new, example)):
            return Outcome.REJECTED, ""
    return Outcome.UNKNOWN, "the evaluation of the CEL rule may end in an error"


def when_not_readable(
    location: Location, outcome: Outcome, new: Schema | None = None
) -> tuple[Outcome, str]:
    """Return what an update meets where CEL cannot read a stored value, and why.

    Args:
        location: Of the value.
        outcome: What becomes of a manifest with it.
        new: The schema, where the value is of another type; None where it is a null.
    """
    if outcome == Outcome.FINE or location.position == "root":
        return outcome, ""
    if new is not None and as_list(new.get("x-kubernetes-validations")):
        return outcome, ""
    found = Outcome.FINE
    for at, (_, above, _) in enumerate(location.above):
        for rule in as_list(above.get("x-kubernetes-validations")):
            text = str(as_object(rule).get("rule"))
            told = reads(text, location.segments[at:], counts=False)
            if told:
                return outcome, ""
            found = Outcome.UNKNOWN if told is None else found
    if location.duplicates:
        return Outcome.UNKNOWN, _DUPLICATES
    return found, _RULE_MAY_FAIL if found == Outcome.UNKNOWN else ""


def _may_have_unnamed(old: Schema, new: Schema, inside: frozenset[tuple[str, str]]) -> bool:
    """Tell whether values of the old schema may have fields that the new one keeps, unnamed."""
    refs = (old.ref, new.ref)
    if all(refs):
        if refs in inside:
            return False
        inside |= {refs}
    shared = old.kinds & new.kinds
    pairs = _pairs_of_fields(old, new) if "object" in shared else []
    if "object" in shared and _keeps_unnamed(old, new):
        return True
    if "array" in shared and new.list_type == "map":
        same_keys = set(old.list_map_keys) <= set(new.list_map_keys)
        if old.list_type != "map" or not same_keys or not has_keys(old, new):
            return True
        pairs.append((old.items, new.items))
    return any(_may_have_unnamed(one, other, inside) for one, other in pairs)


def _keeps_unnamed(old: Schema, new: Schema) -> bool:
    """Tell whether an object may have a field without a name, apart from those inside."""
    if isinstance(new.get("additionalProperties"), dict):
        return False
    if new.embedded and not {"apiVersion", "kind"} <= new.properties.keys():
        return True
    defaults = (new.read(raw) for raw in new.properties.values())
    if any(
        one.default is not NO_DEFAULT and not _is_compared(one, one.default) for one in defaults
    ):
        return True
    others = old.additional is not None or bool(old.properties.keys() - new.properties.keys())
    return others and (new.embedded or new.additional is not None)


def _pairs_of_fields(old: Schema, new: Schema) -> list[tuple[Schema, Schema]]:
    """Return the schemas of each field that values may have under both."""
    names = [*new.properties, *(name for name in old.properties if name not in new.properties)]
    pairs = [(old.field(name), new.field(name)) for name in names]
    pairs.append((old.additional, new.additional))
    return [(one, other) for one, other in pairs if one is not None and other is not None]


def has_keys(old: Schema, new: Schema) -> bool:
    """Tell whether all items of a list have the keys that the new schema identifies them by."""

    def has(name: str) -> bool:
        field = new.items.field(name)
        defaulted = field is not None and field.default is not NO_DEFAULT
        return field is not None and (defaulted or name in old.items.required)

    return all(has(name) for name in new.list_map_keys)


def _is_compared(schema: Schema, value: object) -> bool:
    """Tell whether the server finds a value that did not change to be equal."""
    items = as_list(value)
    if items and schema.list_type == "map":
        names = schema.list_map_keys
        keys = {canonical([as_object(one).get(name) for name in names]) for one in items}
        identified = all(as_object(one).keys() >= set(names) for one in items)
        unique = identified and len(keys) == len(items)
        return unique and all(_is_compared(schema.items, one) for one in items)
    named = as_object(schema.get("additionalProperties"))
    has_named = schema.get("additionalProperties") not in (None, True, False)
    for name, found in as_object(value).items():
        raw = schema.properties.get(name, named if has_named else None)
        if raw is None or not _is_compared(schema.read(raw), found):
            return False
    return True
