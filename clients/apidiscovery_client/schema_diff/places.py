"""Where two schemas stand, and rules above them that look at what is pruned or defaulted there."""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from apidiscovery_client.schema_diff import cel
from apidiscovery_client.schema_diff.examples import Examples
from apidiscovery_client.schema_diff.model import Outcome, worst
from apidiscovery_client.schema_diff.schemas import Schema, as_list, as_object
from apidiscovery_client.schema_diff.validating import canonical, meets, treat

_Position: TypeAlias = Literal["root", "field", "map", "item"]
_ACROSS = (
    "enum",
    "unique",
    "properties-count",
    "required",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "cel",
)
_LOGIC = ("allOf", "anyOf", "oneOf", "not", "enum")


@dataclass(frozen=True, slots=True)
class Place:
    """Where two schemas stand: their own path, and the nodes above them, outermost first."""

    path: str
    position: _Position
    above: tuple[tuple[Schema, Schema, str], ...] = ()
    whole: bool = False  # whether the outermost is a whole object, which any update changes
    duplicates: bool = False  # whether it is in a list of type map whose keys may not be unique
    atomic: bool = False  # whether it is in a list that is compared as a whole

    @property
    def is_root(self) -> bool:
        """Whether the object around the field is the whole one, which changes in any update."""
        return self.whole and len(self.above) == 1

    @property
    def around(self) -> "Place":
        """The place of the object around a field."""
        above = self.above[:-1]
        position: _Position = "field" if above or not self.whole else "root"
        return replace(self, position=position, above=above)

    def field(self, old: Schema, new: Schema, name: str) -> "Place":
        """Return the place of a field."""
        path = f"{self.path}.{name}" if self.path else name
        above = (*self.above, (old, new, name))
        return replace(self, path=path, position="field", above=above)

    def value(self, old: Schema, new: Schema) -> "Place":
        """Return the place of the values of a map."""
        above = (*self.above, (old, new, "{}"))
        return replace(self, path=self.path + "{}", position="map", above=above)

    def item(self, old: Schema, new: Schema, *, unique: bool) -> "Place":
        """Return the place of the items of a list, whose keys are unique if it is of type map."""
        above = (*self.above, (old, new, "[]"))
        found = replace(self, path=self.path + "[]", position="item", above=above)
        if self.duplicates or self.atomic:
            return found
        return replace(found, atomic=new.list_type != "map", duplicates=not unique)


def across(place: Place, treated: Outcome) -> tuple[Outcome, str]:
    """Return what becomes of a manifest of which a part is pruned or defaulted.

    A rule of an object around it may look at that part. Where an example shows that it then
    fails, the manifest is rejected; where that cannot be told, it is unknown.
    """
    found, reason = treated, ""
    for at, (old, new, segment) in enumerate(place.above):
        direct = at == len(place.above) - 1
        told, why = across_one(old, new, segment, treated, direct=direct)
        if worst((told, found)) != found:
            found, reason = told, why
    return found, reason


def across_one(
    old: Schema, new: Schema, segment: str, treated: Outcome, *, direct: bool
) -> tuple[Outcome, str]:
    """Return what becomes of objects of two schemas if a part below a field is treated."""
    if treated == Outcome.FINE or not _looks_at(new, segment, treated, direct=direct):
        return treated, ""
    undecided = False
    examples = list(Examples(raw=True).of(old, new))
    for example in examples:
        value = treat(new, example)
        for keyword in _ACROSS:
            answer = meets(new, keyword, value)
            if answer is False and meets(new, keyword, treat(old, example)) is not False:
                return Outcome.REJECTED, ""
            undecided = undecided or answer is None
    if undecided or not examples:
        return Outcome.UNKNOWN, f"a rule of an object around it looks at {segment!r}"
    return treated, ""


def _looks_at(new: Schema, segment: str, treated: Outcome, *, direct: bool) -> bool:
    for rule in as_list(new.get("x-kubernetes-validations")):
        names = cel.names_in(str(as_object(rule).get("rule")))
        if names is None or segment in names or segment == "{}":
            return True
    for keyword in _LOGIC:
        value = new.get(keyword)
        if value is not None and (segment in ("{}", "[]") or f'"{segment}"' in canonical(value)):
            return True
    if direct and treated == Outcome.PRUNED and new.limit("minProperties"):
        return True
    counted = new.limit("minProperties") or new.limit("maxProperties") is not None
    if direct and treated == Outcome.DEFAULTED and counted:
        return True
    return segment == "[]" and new.list_type != "atomic"
