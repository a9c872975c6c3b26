"""Parses a text and looks it up: group-versions, subresources, names, categories."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from apidiscovery_client.model import CORE_PATH, GROUPS_PATH, Current, Resource, Snapshot
from apidiscovery_client.resolving.index import ALWAYS_FIRST, Index, Table
from apidiscovery_client.resolving.reading import Exact, Reading, exact_forms, readings
from apidiscovery_client.resolving.search import (
    Choice,
    Found,
    Rule,
    Step,
    Trace,
    Why,
    by_kind,
    by_kind_alone,
    find,
    find_exact,
    meanings,
    one_of_each,
    same_kind,
)


@dataclass(frozen=True, slots=True)
class Rivals:
    """The readings that could lead to a better match than the one found.

    Attributes:
        anywhere: In whatever group-version.
        before: Only in a group-version that is preferred to that of the one found.
    """

    anywhere: Sequence[Reading] = ()
    before: Sequence[Reading] = ()


NO_RIVALS = Rivals()


def unsure_of_miss(
    snapshot: Snapshot, index: Index, looked_for: Iterable[Reading | Exact]
) -> dict[str, str]:
    """Return why a resource that was not found may be served; empty when it certainly is not.

    Keys are group-versions, the path of a part that is missing, and the server where it did not
    answer the last time.
    """
    sought = list(looked_for)
    unsure = {
        str(table.version.gv): _reason(table)
        for table in index.unknown()
        if any(_may_hold(one, table) for one in sought)
    }
    unsure |= {path: why for path, why in snapshot.failures.items() if _may_be_at(path, sought)}
    if not isinstance(snapshot.freshness, Current):
        unsure[snapshot.server] = snapshot.freshness.reason
    return unsure


def unsure_of_match(
    snapshot: Snapshot, index: Index, found: Resource, rivals: Rivals
) -> dict[str, str]:
    """Return why there may be a better match than the one found; empty when there is none."""
    rank = index.rank(found)
    unsure = {
        str(table.version.gv): _reason(table)
        for table in index.unknown()
        if any(one.admits(table.version.gv) for one in rivals.anywhere)
        or (table.rank < rank and any(one.admits(table.version.gv) for one in rivals.before))
    }
    is_first = found.gv == ALWAYS_FIRST
    sought = [*rivals.anywhere, *(() if is_first else rivals.before)]
    failures = snapshot.failures.items()
    return unsure | {path: why for path, why in failures if _may_be_at(path, sought)}


def _may_hold(sought: Reading | Exact, table: Table) -> bool:
    if isinstance(sought, Exact):
        return sought.gv == table.version.gv
    return sought.admits(table.version.gv)


def _may_be_at(path: str, sought: Iterable[Reading | Exact]) -> bool:
    """Return whether what is sought may be in a part: a named group is not the core group."""
    for one in sought:
        group, is_whole = (
            (one.gv.group, True) if isinstance(one, Exact) else (one.group, one.is_whole)
        )
        if (path == GROUPS_PATH and (group or not is_whole)) or (path == CORE_PATH and not group):
            return True
    return False


def _reason(table: Table) -> str:
    freshness = table.version.freshness
    return "" if isinstance(freshness, Current) else freshness.reason


@dataclass(slots=True)
class Lookup:
    """The result of looking a text up.

    Attributes:
        text: What was looked up.
        sought: What was looked for.
        found: The resource; None for none.
        below: The subresource that the text names; empty for none.
        members: The resources of the category that the text names.
        candidates: Each group-resource that the text could mean, the one found first.
        rivals: What would be preferred to the one found, if it were known.
    """

    text: str
    sought: Sequence[Reading | Exact]
    found: Found | None = None
    below: str = ""
    members: tuple[Resource, ...] = ()
    candidates: tuple[Resource, ...] = ()
    rivals: Rivals = NO_RIVALS
    trace: Trace = field(default_factory=Trace)

    @property
    def readings(self) -> list[Reading]:
        """Return what was looked for by name, not in a whole group-version."""
        return [one for one in self.sought if isinstance(one, Reading)]


def look_up(index: Index, text: str) -> Lookup:
    """Return what a text means, by the first form that leads to something.

    What begins with a group-version that the server has is in there or nowhere.
    """
    forms = list(exact_forms(text))
    trace = Trace()
    known = [form for form in forms if form.gv in index.tables]
    for form in known:
        if found := find_exact(index, form, trace):
            candidates = tuple(one_of_each(_twins(index, form, found)))
            return Lookup(text, forms, found, form.subresource, candidates=candidates, trace=trace)
    head, slash, below = text.partition("/")
    if not slash and not forms:
        return _category(index, Lookup(text, readings(text), trace=trace))
    sought: list[Reading | Exact] = [*forms, *readings(head)]
    if known or not (head and below) or "/" in below:
        for form in forms[:1] if not known else ():
            trace.no_match(Rule.EXACT, form)
        return Lookup(text, forms or sought, trace=trace)
    return _parent(index, _named(index, Lookup(text, sought, below=below, trace=trace)))


def look_up_kind(index: Index, kind: str, group: str | None, versions: Sequence[str]) -> Lookup:
    """Return the resource of a kind, in one group or, for None, in any."""
    sought = [
        Reading(kind, group or "", version, is_whole=group is not None)
        for version in versions or [""]
    ]
    lookup = Lookup(_kind_text(kind, group, versions), sought)
    by = by_kind_alone if group is None else by_kind
    lookup.found = by(index, Reading(kind, group or ""), versions, lookup.trace)
    if lookup.found:
        every = [
            twin
            for step in lookup.trace.steps
            for one in step.matched
            for twin in same_kind(index.tables[one.gv], one)
        ]
        lookup.candidates = tuple(one_of_each([lookup.found.resource, *every]))
        lookup.rivals = _kind_rivals(sought, lookup.found)
    return lookup


def _kind_rivals(sought: Sequence[Reading], found: Found) -> Rivals:
    """Return the versions asked for before the one found, and that one in a better group."""
    admitting = (place for place, one in enumerate(sought) if one.admits(found.resource.gv))
    place = next(admitting, len(sought))
    return Rivals(sought[:place], sought[place : place + 1])


def members_of(index: Index, category: str) -> tuple[Resource, ...]:
    """Return the resources of a category, each once, in the server's order; empty for none.

    Each is what kubectl takes its group-resource for, and so of the preferred version.
    Source: client-go restmapper/category_expansion.go `discoveryCategoryExpander.Expand`,
    cli-runtime resource/builder.go `ReplaceAliases` and `resourceMappings`.
    """
    names = dict.fromkeys(one.gvr.group_resource for one in index.categories.get(category, ()))
    found = (find(index, readings(name), Trace()) for name in names)
    unique = {(one.resource.gv, one.resource.kind): one.resource for one in found if one}
    return tuple(unique.values())


def _twins(index: Index, form: Exact, found: Found) -> list[Resource]:
    """Return the resource, with all those of its kind where the text names a kind."""
    if form.name == found.resource.name:
        return [found.resource]
    return [found.resource, *same_kind(index.tables[form.gv], found.resource)]


def _named(index: Index, lookup: Lookup) -> Lookup:
    lookup.found = find(index, lookup.readings, lookup.trace)
    if lookup.found:
        lookup.candidates = tuple(meanings(index, lookup.readings, lookup.found))
        lookup.rivals = _name_rivals(lookup.readings, lookup.found)
    return lookup


def _name_rivals(sought: Sequence[Reading], found: Found) -> Rivals:
    """Return what would be taken first: a name, wherever it is, before a short name or kind."""
    if found.rule is Rule.VERSION_AND_GROUP:
        return NO_RIVALS
    is_by_name = found.rule in (Rule.NAME, Rule.VERSION, Rule.GROUP, Rule.GROUP_PREFIX)
    return Rivals(before=sought) if is_by_name else Rivals(anywhere=sought)


def _parent(index: Index, lookup: Lookup) -> Lookup:
    """Look for a resource that is not served itself, for a subresource is asked for."""
    if lookup.found:
        return lookup
    for reading in lookup.readings:
        parents = index.parents.get(reading.name, ())
        matched = index.in_order(one for one in parents if reading.admits(one.gv))
        if matched:
            why = Why.ONLY if len(matched) == 1 else Why.LIST_ORDER
            choice = Choice(matched[0], why, matched)
            lookup.found = Found(lookup.trace.match(Rule.PARENT, reading, choice), Rule.PARENT)
            lookup.candidates = tuple(one_of_each(matched))
            return lookup
    return lookup


def _category(index: Index, lookup: Lookup) -> Lookup:
    """Look for the name and the category of that name; one member is as good as a name."""
    lookup.members = members_of(index, lookup.text)
    lookup.found = find(index, lookup.readings, lookup.trace)
    if lookup.found is None and lookup.members:
        lookup.found = _only_member(lookup)
    if lookup.found:
        by_name = meanings(index, lookup.readings, lookup.found)
        lookup.candidates = tuple(one_of_each([*by_name, *lookup.members]))
        lookup.rivals = _name_rivals(lookup.readings, lookup.found)
    return lookup


def _only_member(lookup: Lookup) -> Found | None:
    """Return the resource of a category of just one."""
    reading = Reading(lookup.text)
    if len(lookup.members) > 1:
        lookup.trace.steps.append(Step(Rule.CATEGORY, reading, lookup.members))
        return None
    choice = Choice(next(iter(lookup.members)), Why.ONLY, lookup.members)
    return Found(lookup.trace.match(Rule.CATEGORY, reading, choice), Rule.CATEGORY)


def _kind_text(kind: str, group: str | None, versions: Sequence[str]) -> str:
    if versions:
        return f"{kind}.{','.join(versions)}.{group or ''}"
    return f"{kind}.{group}" if group else kind
