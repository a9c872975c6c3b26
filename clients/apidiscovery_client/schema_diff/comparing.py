"""The walk of two schemas, field by field, and the rules for what is pruned and defaulted.

What decides is what a kube-apiserver does with an object: it prunes unknown fields, applies
defaults, validates. An update is validated with ratcheting (KEP-4008, on since Kubernetes 1.30):
where a value did not change its errors are tolerated, so that an update of metadata alone fails
only by rules of the whole object, and by those of embedded resources.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from apidiscovery_formats.json_values import as_list, as_object

from apidiscovery_client.schema_diff import cel
from apidiscovery_client.schema_diff.examples import Examples, remembered
from apidiscovery_client.schema_diff.locations import LOGIC, Location, across
from apidiscovery_client.schema_diff.model import (
    Applying,
    Change,
    InvalidSchema,
    Outcome,
    Reading,
    Verdicts,
    worst,
)
from apidiscovery_client.schema_diff.ratcheting import (
    has_keys,
    when_broken,
    when_not_readable,
    when_rule_errs,
    when_treated,
)
from apidiscovery_client.schema_diff.rules import (
    FAMILIES,
    LIST_TYPE,
    Answer,
    Family,
    decide,
    decide_rule,
)
from apidiscovery_client.schema_diff.schemas import (
    ALL_KINDS,
    ANYTHING,
    NO_DEFAULT,
    Resolve,
    Schema,
    read,
)
from apidiscovery_client.schema_diff.validating import canonical, kind_of, meets, treat, valid

_MAX_DEPTH = 100
_MAX_CHANGES = 100_000
_METADATA = ("apiVersion", "kind", "metadata")
_FINE = Verdicts()
_RESOURCE = {"apiVersion": "example.com/v1", "kind": "Example", "metadata": {"name": "example"}}
_READ_FORMATS = ("date", "date-time", "datetime", "duration", "byte")  # CEL has types for them
_NO_VALUE = "no value of the old type is found"
_AT_ROOT = Location("", "root")
# Rules that hold for built-in kinds too: their types are Go's, and decoding follows these.
_DECODED = (
    "property-removed",
    "type-changed",
    "list-type-changed",
    "list-map-keys-changed",
    "map-type-changed",
)
_IN_CODE = "kube-apiserver decides it in code, of which the schema shows a part"


def compare(  # noqa: PLR0913 - those behind the star have names
    old: Mapping[str, object],
    new: Mapping[str, object],
    *,
    resolve_old: Resolve | None = None,
    resolve_new: Resolve | None = None,
    path: str = "",
    built_in: bool = False,
) -> tuple[Change, ...]:
    """Return what is different between two schemas, in the order of fields.

    Args:
        old: A structural schema or a component of an OpenAPI v3 document, as JSON.
        new: The same, later.
        resolve_old: Returns the schema of a `$ref`, such as `#/components/schemas/NAME`.
        resolve_new: The same for `new`.
        path: Of the field that they describe; empty for that of whole objects.
        built_in: Whether the kind is one of kube-apiserver's own. Decoding enforces its types, and
            server-side apply follows its list types. All else is validated and defaulted in code,
            whatever the schema says, so whether it breaks anybody is unknown.

    Raises:
        InvalidSchema: A `$ref` leads nowhere, or a schema is too deep or has too many changes.
    """
    walk = _Walk(built_in=built_in)
    try:
        with remembered():
            if path:
                walk.pair(read(old, resolve_old), read(new, resolve_new), Location(path, "field"))
            else:
                rooted = _rooted(read(old, resolve_old)), _rooted(read(new, resolve_new))
                walk.pair(*rooted, Location("", "root", whole=True))
    except RecursionError as error:
        raise InvalidSchema("it is nested too deeply") from error
    return tuple(walk.changes)


def _rooted(schema: Schema) -> Schema:
    """Return the schema of whole objects with what every object has."""
    implied = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    metadata = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    properties = {**implied, "metadata": metadata, **schema.properties}
    required = sorted(schema.required | set(_METADATA))
    return replace(
        schema, keywords={**schema.keywords, "properties": properties, "required": required}
    )


class _Walk:
    """One comparison: the changes found so far, and the references it is inside of."""

    def __init__(self, *, built_in: bool) -> None:
        self.built_in = built_in
        self.changes = list[Change]()
        self._inside = Counter[tuple[str, str]]()
        self._same = set[tuple[str, str]]()

    def tell(
        self, location: Location, change: str, before: object, after: object, verdicts: Verdicts
    ) -> None:
        if len(self.changes) >= _MAX_CHANGES:
            raise InvalidSchema(f"there are more than {_MAX_CHANGES} changes", path=location.path)
        if self.built_in and change not in _DECODED:
            verdicts = _in_code(change, verdicts)
        self.changes.append(Change(location.path, change, before, after, verdicts))

    def pair(self, old: Schema, new: Schema, location: Location) -> None:
        """Compare two schemas of the same values."""
        if len(location.above) > _MAX_DEPTH:
            raise InvalidSchema(f"it is nested deeper than {_MAX_DEPTH} fields", path=location.path)
        if old.resolve is None and new.resolve is None and old.keywords == new.keywords:
            return
        refs = (old.ref, new.ref)
        if all(refs) and (self._inside[refs] or refs in self._same):
            return  # its changes are told where it is met first
        found = len(self.changes)
        self._inside[refs] += 1
        if old.keywords != new.keywords:
            self._values(old, new, location)
        self._structure(old, new, location)
        self._inside[refs] -= 1
        if all(refs) and found == len(self.changes) and not any(self._inside.values()):
            self._same.add(refs)

    def _values(self, old: Schema, new: Schema, location: Location) -> None:
        for before, after, name, verdicts in _type_change(old, new, location):
            self.tell(location, name, before, after, verdicts)
        _nullable(self, old, new, location)
        _default(self, old, new, location)
        if old.kinds & new.kinds:
            for family in FAMILIES:
                before, after = family.value(old), family.value(new)
                if _differ(before, after):
                    name = _named(family.name, before, after)
                    verdicts = _limits(family, old, new, location)
                    self.tell(location, name, before, after, verdicts)
            _lists(self, old, new, location)
            _rules(self, old, new, location)
            _unknown_fields(self, old, new, location)
            _embedded(self, old, new, location)

    def _structure(self, old: Schema, new: Schema, location: Location) -> None:
        shared = old.kinds & new.kinds
        if "object" in shared:
            for name in sorted({*old.properties, *new.properties, *old.required, *new.required}):
                self._field(old, new, name, location.field(old, new, name))
            self._map(old, new, location.value(old, new))
        if "array" in shared and (old.get("items") is not None or new.get("items") is not None):
            unique = new.list_type != "map" or (
                has_keys(old, new) and decide(LIST_TYPE, old, new).holds is True
            )
            self.pair(old.items, new.items, location.item(old, new, unique=unique))

    def _field(self, old: Schema, new: Schema, name: str, location: Location) -> None:
        before, after = old.properties.get(name), new.properties.get(name)
        if before is not None and after is not None:
            self._required(old, new, name, location)
            self.pair(old.read(before), new.read(after), location)
        elif before is not None:
            self._removed(old, new, name, location)
        elif after is not None:
            self._added(old, new, name, location)
        else:
            self._required(old, new, name, location)

    def _required(self, old: Schema, new: Schema, name: str, location: Location) -> None:
        if (name in old.required) is (name in new.required):
            return
        field = new.field(name)
        defaulted = field is not None and field.default is not NO_DEFAULT
        if name not in new.required:
            reader = Reading.FINE if defaulted else Reading.ABSENT
            self.tell(
                location,
                "required-removed",
                before=True,
                after=False,
                verdicts=Verdicts(reader=reader),
            )
            return
        known = old.field(name)
        was_defaulted = known is not None and known.default is not NO_DEFAULT
        if defaulted:
            verdicts = _FINE
        else:
            stored, reason = (
                (Outcome.FINE, "") if was_defaulted else _without(old, new, name, location)
            )
            verdicts = Verdicts(Outcome.REJECTED, stored=stored, reason=reason)
        self.tell(location, "required-added", before=False, after=True, verdicts=verdicts)

    def _removed(self, old: Schema, new: Schema, name: str, location: Location) -> None:
        field = old.read(old.properties[name])
        if new.embedded and name in _METADATA:
            return
        target = new.additional
        if target is None:
            outcome, stored, reason = treated_in(location, Outcome.PRUNED)
            if name in new.required:
                outcome = Outcome.REJECTED
                absent, why = _without(old, new, name, location)
                stored, reason = worst((stored, absent)), reason or why
            verdicts = Verdicts(outcome, Reading.ABSENT, stored, reason=reason)
            self.tell(location, "property-removed", dict(field.keywords), None, verdicts)
            return
        if target is ANYTHING:
            has_defaults = field.resolve is not None or '"default":' in canonical(field.keywords)
            outcome, reason = across(location, Outcome.DEFAULTED if has_defaults else Outcome.FINE)
            if name in new.required - old.required:
                outcome = Outcome.REJECTED
            self.tell(
                location,
                "property-removed",
                dict(field.keywords),
                None,
                Verdicts(outcome, Reading.DIFFERENT, Outcome.FINE, reason=reason),
            )
            return
        self._required(old, new, name, location)
        # Defaults of values of a map do not add fields.
        without = {key: value for key, value in target.keywords.items() if key != "default"}
        self.pair(field, replace(target, keywords=without), location)

    def _added(self, old: Schema, new: Schema, name: str, location: Location) -> None:
        field = new.read(new.properties[name])
        if old.embedded and name in _METADATA:
            return
        source = old.additional
        inner = _Walk(built_in=self.built_in)
        if source is not None:
            inner.pair(source, field, replace(location, position="field"))
        told = [one.verdicts for one in inner.changes]
        writer = [one.writer for one in told]
        stored = [one.stored for one in told]
        reasons = [one.reason for one in told if one.writer == Outcome.UNKNOWN]
        if field.default is not NO_DEFAULT:
            outcome, kept, reason = treated_in(location, Outcome.DEFAULTED)
            reasons.append(reason)
            writer.append(outcome)
            stored.append(kept)
        elif name in new.required and name not in old.required:
            writer.append(Outcome.REJECTED)
            kept, reason = _without(old, new, name, location)
            stored.append(kept)
            reasons.append(reason)
        verdicts = Verdicts(worst(writer), Reading.FINE, worst(stored))
        verdicts = replace(verdicts, reason="; ".join(filter(None, reasons)))
        self.tell(location, "property-added", None, dict(field.keywords), verdicts)

    def _map(self, old: Schema, new: Schema, location: Location) -> None:
        before, after = old.additional, new.additional
        if old.preserves and old.get("additionalProperties") is None and new.preserves:
            if isinstance(new.get("additionalProperties"), dict):
                self.pair(ANYTHING, new.additional or ANYTHING, location)
            return
        if before is None and after is not None and not new.preserves:
            value = new.get("additionalProperties")
            self.tell(location, "additional-properties-added", None, value, _FINE)
        elif before is not None and after is None and not old.preserves:
            outcome, stored, reason = treated_in(location, Outcome.PRUNED)
            verdicts = Verdicts(outcome, Reading.ABSENT, stored, reason=reason)
            value = old.get("additionalProperties")
            self.tell(location, "additional-properties-removed", value, None, verdicts)
        elif before is not None and after is not None:
            self.pair(before, after, location)


def _in_code(change: str, verdicts: Verdicts) -> Verdicts:
    """Return the verdicts on a change that a built-in kind's schema shows and code decides."""
    writer, reader, stored = verdicts.writer, verdicts.reader, verdicts.stored
    if writer is not Outcome.FINE:
        writer = Outcome.UNKNOWN
    if stored is not Outcome.FINE:
        stored = Outcome.UNKNOWN
    if change.startswith("default-") and reader is not Reading.FINE:
        reader = Reading.UNKNOWN
    if (writer, reader, stored) == (verdicts.writer, verdicts.reader, verdicts.stored):
        return verdicts
    return replace(verdicts, writer=writer, reader=reader, stored=stored, reason=_IN_CODE)


def _differ(before: object, after: object) -> bool:
    return before != after and canonical(before) != canonical(after)


def _named(name: str, before: object, after: object) -> str:
    if before is None:
        return f"{name}-added"
    return f"{name}-removed" if after is None else f"{name}-changed"


def treated_in(location: Location, treated: Outcome) -> tuple[Outcome, Outcome, str]:
    """Return what becomes of a manifest and of a stored object, a part of which is treated."""
    writer, reason = across(location, treated)
    stored, why = when_treated(location, treated)
    return writer, stored, reason or why


def _without(old: Schema, new: Schema, name: str, location: Location) -> tuple[Outcome, str]:
    """Return what an update meets where a required field is not there."""
    return when_broken(
        location.around, old, new, Outcome.REJECTED, lambda value: name not in as_object(value)
    )


def _type_change(
    old: Schema, new: Schema, location: Location
) -> Iterator[tuple[object, object, str, Verdicts]]:
    if old.kinds == new.kinds:
        return
    names = [_type_name(schema) for schema in (old, new)]
    reader = Reading.FINE if new.kinds <= old.kinds else Reading.DIFFERENT
    writer = stored = Outcome.FINE
    reason = ""
    if not old.kinds <= new.kinds:
        examples = Examples().of(old, new)
        if any(one is not None and kind_of(one) not in new.kinds for one in examples):
            writer = Outcome.REJECTED
        else:
            writer, reason = Outcome.UNKNOWN, _NO_VALUE
        stored, why = when_not_readable(location, writer, new)
        stored = worst((stored, _worst_treatment(old, new)))
        reason = "; ".join(filter(None, (reason, why)))
        if stored == Outcome.UNKNOWN and not reason:
            reason = _NO_VALUE
    yield names[0], names[1], "type-changed", Verdicts(writer, reader, stored, reason=reason)


def _type_name(schema: Schema) -> object:
    if schema.kinds == frozenset({"integer", "string"}):
        return "int-or-string"
    return schema.get("type")


def _worst_treatment(old: Schema, new: Schema) -> Outcome:
    """Return what pruning and defaults of a schema do to values of another, by examples."""
    if not old.kinds & {"object", "array"}:
        return Outcome.FINE
    hints = ({"example": 1}, [{"example": 1}]) if old.kinds >= {"object", "array"} else ()
    told = [
        outcome_of(value, treat(new, value))
        for value in Examples(raw=True, doubtful=True).of(old, new, hints)
        if value is not None
    ]
    return worst(told) if told else Outcome.UNKNOWN


def outcome_of(before: object, after: object) -> Outcome:
    """Tell what became of a value: pruned where something is lost, else defaulted or fine."""
    if canonical(before) == canonical(after):
        return Outcome.FINE
    return Outcome.PRUNED if _is_less(before, after) else Outcome.DEFAULTED


def _is_less(before: object, after: object) -> bool:
    left, right = as_object(before), as_object(after)
    if left:
        return any(
            name not in right or _is_less(value, right[name]) for name, value in left.items()
        )
    return any(map(_is_less, as_list(before), as_list(after)))


def _nullable(walk: _Walk, old: Schema, new: Schema, location: Location) -> None:
    if old.nullable is new.nullable or location.position == "root":
        return
    if new.nullable:
        writer = Outcome.DEFAULTED if old.default is not NO_DEFAULT else Outcome.FINE
        if meets(new, "enum", None) is False:
            writer = Outcome.REJECTED  # a null was dropped or defaulted; now it meets the enum
        elif any(new.get(keyword) is not None for keyword in LOGIC[:-1]):
            reason = "whether null meets allOf, anyOf, oneOf or not, is not decided"
            unknown = Verdicts(Outcome.UNKNOWN, Reading.DIFFERENT, reason=reason)
            walk.tell(location, "nullable-added", before=False, after=True, verdicts=unknown)
            return
        verdicts = Verdicts(writer, Reading.DIFFERENT)
        walk.tell(location, "nullable-added", before=False, after=True, verdicts=verdicts)
        return
    reason = ""
    if new.default is not NO_DEFAULT:
        writer, stored, reason = treated_in(location, Outcome.DEFAULTED)
    elif location.position == "item":
        writer = Outcome.REJECTED
        stored, reason = when_not_readable(location, writer)
    else:
        writer, stored, reason = treated_in(location, Outcome.PRUNED)
        if location.above and location.position == "field":
            parent, name = location.above[-1][1:]
            if name in parent.required:
                writer = Outcome.REJECTED
                absent, why = _without(*location.above[-1], location)
                stored, reason = worst((stored, absent)), reason or why
    if old.get("enum") is not None and meets(old, "enum", None) is False:
        writer = stored = Outcome.FINE  # null was no value of the enum
    verdicts = Verdicts(writer, stored=stored, reason=reason)
    walk.tell(location, "nullable-removed", before=True, after=False, verdicts=verdicts)


def _default(walk: _Walk, old: Schema, new: Schema, location: Location) -> None:
    before, after = old.default, new.default
    if location.position == "root" or (before is NO_DEFAULT and after is NO_DEFAULT):
        return
    if walk.built_in and all(one is NO_DEFAULT or not one for one in (before, after)):
        return  # the value that Go gives to an absent field
    parent_old, parent_new, name = (
        location.above[-1] if location.above else (ANYTHING, ANYTHING, "")
    )
    in_field = location.position == "field"
    if before is NO_DEFAULT:
        applies = in_field and name not in parent_old.required
        reason, writer, stored = "", Outcome.FINE, Outcome.FINE
        if applies:
            writer, stored, reason = treated_in(location, Outcome.DEFAULTED)
        elif not in_field and not old.nullable and not new.nullable:
            # A null, which was dropped from a map. In a list it is valid where any type is.
            in_list = location.position == "item"
            if not in_list or old.kinds == ALL_KINDS:
                writer = Outcome.DEFAULTED
                stored = Outcome.DEFAULTED if in_list else stored
        verdicts = Verdicts(writer, Reading.FINE, stored, reason=reason)
        walk.tell(location, "default-added", None, after, verdicts)
    elif after is NO_DEFAULT:
        required = in_field and name in parent_new.required
        writer, reason = across(location, Outcome.DEFAULTED)
        # A null got the default. Now it is refused in a list and dropped from a map.
        is_counted = location.position == "map" and parent_new.limit("minProperties")
        if required or ((location.position == "item" or is_counted) and not old.nullable):
            writer = Outcome.REJECTED
        reader = Reading.FINE if required or not in_field else Reading.ABSENT
        verdicts = Verdicts(writer, reader, Outcome.FINE, reason=reason)
        walk.tell(location, "default-removed", before, None, verdicts)
    elif _differ(before, after):
        same = canonical(treat(old, before)) == canonical(treat(new, after))
        writer, reason = (Outcome.FINE, "") if same else across(location, Outcome.DEFAULTED)
        walk.tell(location, "default-changed", before, after, Verdicts(writer, reason=reason))


def _limits(family: Family, old: Schema, new: Schema, location: Location) -> Verdicts:
    forward, backward = decide(family, old, new), decide(family, new, old)
    return _from_answers(
        forward,
        backward,
        (old, new, location),
        lambda value: meets(new, family.check, value) is False,
    )


def _from_answers(
    forward: Answer,
    backward: Answer,
    where: tuple[Schema, Schema, Location],
    breaks: Callable[[object], bool],
) -> Verdicts:
    writer = {True: Outcome.FINE, False: Outcome.REJECTED, None: Outcome.UNKNOWN}[forward.holds]
    reader = {True: Reading.FINE, False: Reading.DIFFERENT, None: Reading.UNKNOWN}[backward.holds]
    reasons = [forward.reason]
    if backward.reason:
        reasons.append(f"of new values: {backward.reason}")
    old, new, location = where
    stored, why = when_broken(location, old, new, writer, breaks)
    if new.get("format") in _READ_FORMATS and new.get("format") != old.get("format"):
        unread, unread_why = when_not_readable(location, writer, new)
        stored, why = worst((stored, unread)), why or unread_why
    reasons.append(why)
    return Verdicts(writer, reader, stored, reason="; ".join(filter(None, reasons)))


def _lists(walk: _Walk, old: Schema, new: Schema, location: Location) -> None:
    if "array" in old.kinds & new.kinds:
        before, after = (
            one.merging if walk.built_in else (one.list_type, one.list_map_keys)
            for one in (old, new)
        )
        if (before[0], sorted(before[1])) != (after[0], sorted(after[1])):
            verdicts = Verdicts(applier=Applying.OWNERSHIP)
            if not walk.built_in:
                forward, backward = decide(LIST_TYPE, old, new), decide(LIST_TYPE, new, old)
                # What was not unique is tolerated: `ValidateListSetsAndMaps` of the old object.
                found = _from_answers(forward, backward, (old, new, _AT_ROOT), lambda _: False)
                verdicts = replace(found, stored=Outcome.FINE, applier=Applying.OWNERSHIP)
            if before[0] == after[0]:
                keys = list(before[1]), list(after[1])
                walk.tell(location, "list-map-keys-changed", *keys, verdicts)
            else:
                walk.tell(location, "list-type-changed", before[0], after[0], verdicts)
    if "object" in old.kinds & new.kinds:
        one, other = (
            str(schema.get("x-kubernetes-map-type") or "granular") for schema in (old, new)
        )
        if one != other:
            verdicts = Verdicts(applier=Applying.OWNERSHIP)
            walk.tell(location, "map-type-changed", one, other, verdicts)


def _rules(walk: _Walk, old: Schema, new: Schema, location: Location) -> None:
    before, after = (
        {
            str(as_object(one).get("rule")): as_object(one)
            for one in as_list(schema.get("x-kubernetes-validations"))
        }
        for schema in (old, new)
    )
    for rule in sorted(before.keys() - after.keys()):
        answer = decide_rule(rule, new, old)
        reader = {True: Reading.FINE, False: Reading.DIFFERENT, None: Reading.UNKNOWN}[answer.holds]
        reason = f"of new values: {answer.reason}" if answer.reason else ""
        verdicts = Verdicts(reader=reader, reason=reason)
        walk.tell(location, "cel-rule-removed", dict(before[rule]), None, verdicts)
    for rule in sorted(after.keys() - before.keys()):
        answer = decide_rule(rule, old, new)
        where = (old, new, location)
        verdicts = _from_answers(answer, Answer(holds=True), where, partial(_breaks, rule))
        stored, why = when_rule_errs(location, old, new, rule)
        if worst((stored, verdicts.stored)) != verdicts.stored:
            reason = "; ".join(filter(None, (verdicts.reason, why)))
            verdicts = replace(verdicts, stored=stored, reason=reason)
        walk.tell(location, "cel-rule-added", None, dict(after[rule]), verdicts)
    for rule in sorted(before.keys() & after.keys()):
        if _differ(before[rule], after[rule]):
            one, other = dict(before[rule]), dict(after[rule])
            verdicts = _FINE
            if one.get("optionalOldSelf") != other.get("optionalOldSelf"):
                reason = "the rule is now evaluated at other times"
                stored, _ = when_broken(location, old, new, Outcome.UNKNOWN, lambda _: False)
                verdicts = Verdicts(Outcome.UNKNOWN, Reading.UNKNOWN, stored, reason=reason)
            walk.tell(location, "cel-message-changed", one, other, verdicts)


def _breaks(rule: str, value: object) -> bool:
    return value is not None and cel.holds(rule, value) is False


def _unknown_fields(walk: _Walk, old: Schema, new: Schema, location: Location) -> None:
    if old.preserves is new.preserves or "object" not in old.kinds | new.kinds:
        return
    verdicts = _FINE
    if old.preserves:
        outcome = Outcome.PRUNED
        additional = new.additional
        if additional is not None and additional is not ANYTHING:
            return  # the walk of additionalProperties tells it
        if additional is ANYTHING:
            outcome = Outcome.FINE
        told, stored, reason = treated_in(location.field(old, new, "{}"), outcome)
        reader = Reading.FINE if outcome == Outcome.FINE else Reading.ABSENT
        verdicts = Verdicts(told, reader, stored, reason=reason)
    walk.tell(location, "preserve-unknown-fields-changed", old.preserves, new.preserves, verdicts)


def _embedded(walk: _Walk, old: Schema, new: Schema, location: Location) -> None:
    if old.embedded is new.embedded:
        return
    if new.embedded:
        # Errors of embedded resources are not tolerated in updates.
        verdicts = Verdicts(Outcome.REJECTED, stored=Outcome.REJECTED)
        if {"apiVersion", "kind"} <= old.required:
            outcome = Outcome.REJECTED  # metadata of another shape
            verdicts = Verdicts(outcome, Reading.FINE, Outcome.PRUNED)
    else:
        kept = as_object(treat(new, _RESOURCE))
        outcome = outcome_of(_RESOURCE, kept)
        fields = ((new.field(name), value) for name, value in kept.items())
        if any(field is not None and valid(field, value) is not True for field, value in fields):
            outcome = Outcome.REJECTED
        stored = outcome_of(_RESOURCE, kept)
        reader = Reading.FINE if set(_METADATA[:2]) <= new.required else Reading.ABSENT
        verdicts = Verdicts(outcome, reader, stored)
    walk.tell(location, "embedded-resource-changed", old.embedded, new.embedded, verdicts)
