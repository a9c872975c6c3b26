"""The locations of two schemas, and rules above them that look at what is pruned or defaulted."""

import json
import re
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from apidiscovery_formats.json_values import as_list, as_object

from apidiscovery_client.schema_diff import cel
from apidiscovery_client.schema_diff.examples import Examples
from apidiscovery_client.schema_diff.model import Outcome, worst
from apidiscovery_client.schema_diff.schemas import Schema
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
LOGIC = ("allOf", "anyOf", "oneOf", "not", "enum")
_WHOLE = re.compile(r'^\[[\[{]"|"enum":\[[\[{]')
_COUNTS = re.compile(r'"(?:min|max)Properties":')


@dataclass(frozen=True, slots=True)
class Location:
    """Where two schemas stand: their own path, and the nodes above them, outermost first."""

    path: str
    position: _Position
    above: tuple[tuple[Schema, Schema, str], ...] = ()
    whole: bool = False  # whether the outermost is a whole object, which any update changes
    duplicates: bool = False  # whether it is in a list of type map whose keys may not be unique
    atomic: bool = False  # whether it is in a list that is compared as a whole

    @property
    def segments(self) -> tuple[str, ...]:
        """The path as field names, `[]` and `{}`."""
        return tuple(segment for _, _, segment in self.above)

    @property
    def is_root(self) -> bool:
        """Whether the object around the field is the whole one, which changes in any update."""
        return self.whole and len(self.above) == 1

    @property
    def around(self) -> "Location":
        """The location of the object around a field."""
        above = self.above[:-1]
        position: _Position = "field" if above or not self.whole else "root"
        return replace(self, position=position, above=above)

    def field(self, old: Schema, new: Schema, name: str) -> "Location":
        """Return the location of a field."""
        path = f"{self.path}.{name}" if self.path else name
        above = (*self.above, (old, new, name))
        return replace(self, path=path, position="field", above=above)

    def value(self, old: Schema, new: Schema) -> "Location":
        """Return the location of the values of a map."""
        above = (*self.above, (old, new, "{}"))
        return replace(self, path=self.path + "{}", position="map", above=above)

    def item(self, old: Schema, new: Schema, *, unique: bool) -> "Location":
        """Return the location of the items of a list; keys are unique if it is of type map."""
        above = (*self.above, (old, new, "[]"))
        found = replace(self, path=self.path + "[]", position="item", above=above)
        if self.duplicates or self.atomic:
            return found
        return replace(found, atomic=new.list_type != "map", duplicates=not unique)


def across(location: Location, treated: Outcome) -> tuple[Outcome, str]:
    """Return what becomes of a manifest of which a part is pruned or defaulted.

    A rule of an object around it may look at that part. Where an example shows that it then
    fails, the manifest is rejected; else it is unknown.
    """
    found, reason = treated, ""
    for at, (old, new, _) in enumerate(location.above):
        told, why = across_one(old, new, location.segments[at:], treated)
        if worst((told, found)) != found:
            found, reason = told, why
    return found, reason


def across_one(
    old: Schema, new: Schema, path: tuple[str, ...], treated: Outcome
) -> tuple[Outcome, str]:
    """Return what becomes of objects of two schemas if what is at a path in them is treated."""
    if treated == Outcome.FINE or not _looks_at(new, path, treated):
        return treated, ""
    for example in Examples(raw=True).of(old, new):
        value = treat(new, example)
        for keyword in _ACROSS:
            answer = meets(new, keyword, value)
            if answer is False and meets(new, keyword, treat(old, example)) is not False:
                return Outcome.REJECTED, ""
    return Outcome.UNKNOWN, f"a rule of an object around it looks at {path[0]!r}"


def _looks_at(new: Schema, path: tuple[str, ...], treated: Outcome) -> bool:
    """Tell whether a rule of these objects may depend on what is at a path in them."""
    for rule in as_list(new.get("x-kubernetes-validations")):
        if cel.reads(str(as_object(rule).get("rule")), path) is not False:
            return True
    if any(_names(new.get(keyword), path) for keyword in LOGIC):
        return True
    if len(path) == 1 and not _keeps_count(new, treated):
        return True
    if path[0] != "[]" or new.list_type == "atomic":
        return False
    return new.list_type == "set" or len(path) == 1 or path[1] in new.list_map_keys


def _names(logic: object, path: tuple[str, ...]) -> bool:
    """Tell whether logic may name what is at a path, count it, or list whole objects."""
    if logic is None:
        return False
    text = canonical(logic)
    first = path[0]
    return (
        first in ("{}", "[]")
        or json.dumps(first) in text
        or _WHOLE.search(text) is not None
        or (len(path) == 1 and _COUNTS.search(text) is not None)
    )


def _keeps_count(new: Schema, treated: Outcome) -> bool:
    """Tell whether one field more or less never breaks a limit on their number."""
    least, most = new.limit("minProperties") or 0, new.limit("maxProperties")
    closed = new.additional is None and not new.embedded
    fits = most is None or (closed and len(new.properties) <= most)
    # A default that is removed is a field less.
    return len(new.required) >= least and (fits or treated == Outcome.PRUNED)
