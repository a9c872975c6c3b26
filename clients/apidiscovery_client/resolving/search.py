"""Finds the resource that a text means, by kubectl's rules in kubectl's order, and keeps the trace.

Source: cli-runtime resource/builder.go `mappingFor`: the text is a resource, first with a version
and then without, else a kind, first with a version and then without.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from apidiscovery_client.model import Resource
from apidiscovery_client.resolving.index import ALWAYS_FIRST, Index, Table
from apidiscovery_client.resolving.reading import INTERNAL_VERSION, Exact, Reading


class Rule(Enum):
    """How a text was taken; the value is a sentence for people.

    Those up to `KIND` are kubectl's, in its order. Source: cli-runtime resource/builder.go
    `mappingFor`, client-go restmapper/shortcut.go `expandResourceShortcut`, apimachinery
    pkg/api/meta/restmapper.go `DefaultRESTMapper`.
    """

    SHORT_NAME = "a short name, in any group"
    SHORT_NAME_IN_GROUP = "a short name, in the group that the text names"
    SHORT_NAME_GROUP_PREFIX = "a short name, in a group whose name begins as the text says"
    VERSION_AND_GROUP = "a plural or singular name, in the version and group that the text names"
    VERSION = "a plural or singular name, in that version of any group"
    GROUP = "a plural or singular name, in the group that the text names"
    GROUP_PREFIX = "a plural or singular name, in a group whose name begins as the text says"
    NAME = "a plural or singular name, in any group"
    VERSION_AND_KIND = "a kind, in the version and group that the text names"
    KIND = "a kind, in any version of the group that the text names"

    EXACT = "a kind or plural name after its whole group-version, as in apps/v1/Deployment"
    KIND_IN_ANY_GROUP = "a kind, in any group, for none was named"
    CATEGORY = "a category"
    PARENT = "a name that only has subresources, and is not served itself"


class Why(Enum):
    """Why one match was preferred to the others; the value is a sentence for people.

    Source: client-go restmapper/discovery.go `NewDiscoveryRESTMapper`, apimachinery
    pkg/api/meta/priority.go `PriorityRESTMapper`.
    """

    ONLY = "it is the only one"
    CORE = "v1 of the core group comes before all others"
    GROUP_ORDER = "its group comes first in the server's order"
    PREFERRED = "it is the version of its group that the server prefers"
    VERSION_ORDER = "its version comes first of those that have it"
    LIST_ORDER = "it comes first in the server's order"
    ASKED_ORDER = "its version comes first of those asked for"
    LAST_OF_KIND = "it comes last of those with this kind in its group-version"


SHORT_NAMES = frozenset({Rule.SHORT_NAME, Rule.SHORT_NAME_IN_GROUP, Rule.SHORT_NAME_GROUP_PREFIX})
"""Rules that lead to a group-resource, which is then looked up as a name."""


@dataclass(frozen=True, slots=True)
class Step:
    """One rule that was tried.

    Attributes:
        rule: Which one.
        reading: What was looked for.
        matched: What it matched, the most preferred first; empty when it did not fire.
        chosen: What was taken, at a short name what it stands for; None where nothing matched, and
            where a category has several resources.
        why: Why that one.
    """

    rule: Rule
    reading: Reading | Exact
    matched: tuple[Resource, ...] = ()
    chosen: Resource | None = None
    why: Why | None = None


@dataclass(slots=True)
class Trace:
    """What was tried so far, and what kubectl warns of."""

    steps: list[Step] = field(default_factory=list[Step])
    warnings: list[str] = field(default_factory=list[str])

    def no_match(self, rule: Rule, reading: Reading | Exact) -> None:
        """Note a rule that matched nothing."""
        self.steps.append(Step(rule, reading))

    def match(self, rule: Rule, reading: Reading | Exact, found: "Choice") -> Resource:
        """Note a rule that fired; return what it chose."""
        self.steps.append(Step(rule, reading, tuple(found.matched), found.chosen, found.why))
        return found.chosen


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen of several."""

    chosen: Resource
    why: Why
    matched: Sequence[Resource]


@dataclass(frozen=True, slots=True)
class Found:
    """A resource and the rule that led to it."""

    resource: Resource
    rule: Rule


def find(index: Index, sought: Sequence[Reading], trace: Trace) -> Found | None:
    """Return the resource that kubectl takes a text for; None when there is none."""
    for reading in sought:
        if reading.name and (found := _by_name(index, reading, trace)):
            return found
    for reading in sought:
        if reading.name and (found := by_kind(index, reading, [reading.version], trace)):
            return found
    return None


def find_exact(index: Index, form: Exact, trace: Trace) -> Found | None:
    """Return the resource of that plural name or kind in exactly that group-version."""
    table = index.tables.get(form.gv)
    full_names = index.words.get(form.name, []) + index.parents.get(form.name, [])
    named = [found for found in full_names if found.gv == form.gv and found.name == form.name]
    chosen = named[-1] if named else table.kinds.get(form.name) if table else None
    if chosen is None or table is None:
        trace.no_match(Rule.EXACT, form)
        return None
    twins = [chosen] if named else same_kind(table, chosen)
    why = Why.ONLY if len(twins) == 1 else Why.LAST_OF_KIND
    return Found(trace.match(Rule.EXACT, form, Choice(chosen, why, twins)), Rule.EXACT)


def by_kind(index: Index, reading: Reading, versions: Sequence[str], trace: Trace) -> Found | None:
    """Return the resource of a kind in exactly that group, exactly so or in lower case.

    Source: apimachinery pkg/api/meta `DefaultRESTMapper.RESTMappings` and
    `PriorityRESTMapper.RESTMapping`: of several versions asked for the first that is served.
    """
    asked = _without_any(versions)
    rule = Rule.VERSION_AND_KIND if asked else Rule.KIND
    return _of_kind(index, index.groups.get(reading.group, ()), asked, (rule, reading), trace)


def by_kind_alone(
    index: Index, reading: Reading, versions: Sequence[str], trace: Trace
) -> Found | None:
    """Return the most preferred resource of a kind, whatever its group.

    Of several versions asked for, the first that any group serves comes before the order of groups.
    """
    step = (Rule.KIND_IN_ANY_GROUP, reading)
    return _of_kind(index, index.tables.values(), _without_any(versions), step, trace)


def _without_any(versions: Sequence[str]) -> list[str]:
    return [version for version in versions if version not in ("", INTERNAL_VERSION)]


def _of_kind(
    index: Index,
    tables: Iterable[Table],
    asked: Sequence[str],
    step: tuple[Rule, Reading],
    trace: Trace,
) -> Found | None:
    rule, reading = step
    having = [table for table in tables if reading.name in table.kinds]
    if asked:
        having = [table for table in having if table.version.name in asked]
        having.sort(key=lambda table: asked.index(table.version.name))
    if not having:
        trace.no_match(rule, reading)
        return None
    matched = [table.kinds[reading.name] for table in having]
    is_asked = len({found.gv.version for found in matched}) > 1 and asked
    choice = Choice(matched[0], Why.ASKED_ORDER if is_asked else _why(index, matched), matched)
    twins = same_kind(having[0], matched[0])
    if len(twins) > 1:
        choice = Choice(matched[0], Why.LAST_OF_KIND, [*matched, *twins])
    return Found(trace.match(rule, reading, choice), rule)


def same_kind(table: Table, resource: Resource) -> list[Resource]:
    """Return the resources of a group-version that have the kind of this one, it included."""
    return [found for found in table.version.resources if found.kind == resource.kind]


def _by_name(index: Index, reading: Reading, trace: Trace) -> Found | None:
    expanded, short_rule = _expanded(index, reading, trace)
    rule = _name_rule(index, expanded)
    matched = _named(index, expanded)
    if not matched:
        trace.no_match(rule, expanded)
        return None
    chosen = trace.match(rule, expanded, _mapped(index, matched))
    return Found(chosen, short_rule or rule)


def _expanded(index: Index, reading: Reading, trace: Trace) -> tuple[Reading, Rule | None]:
    """Return what a short name stands for, with the rule; any other reading as it is.

    The version that a text names is lost where its group is named whole or not at all, and is
    kept where only the group's beginning is named; that is so in client-go, too.
    Source: client-go restmapper/shortcut.go `expandResourceShortcut`.
    """
    name, group = reading.name, reading.group
    if any(
        name in (found.name, found.singular_name) and group in ("", found.gv.group)
        for found in index.words.get(name, ())
    ):
        return reading, None
    short = index.short_names.get(name, ())
    rule = Rule.SHORT_NAME_IN_GROUP if group else Rule.SHORT_NAME
    if meant := [found for found in short if group in ("", found.gv.group)]:
        chosen = _first_short(reading, rule, meant, trace)
        return Reading(chosen.name, chosen.gv.group), rule
    trace.no_match(rule, reading)
    if not group:
        return reading, None
    rule = Rule.SHORT_NAME_GROUP_PREFIX
    if meant := [found for found in short if found.gv.group.startswith(group)]:
        chosen = trace.match(rule, reading, _listed_first(meant))
        return Reading(chosen.name, chosen.gv.group, reading.version), rule
    trace.no_match(rule, reading)
    return reading, None


def _first_short(reading: Reading, rule: Rule, meant: Sequence[Resource], trace: Trace) -> Resource:
    """Return the first resource of a short name; warn of the others, in kubectl's words."""
    choice = _listed_first(meant)
    trace.warnings += (
        f'short name "{reading.name}" could also match lower priority resource '
        + other.gvr.group_resource
        for other in choice.matched[1:]
    )
    return trace.match(rule, reading, choice)


def _listed_first(meant: Sequence[Resource]) -> Choice:
    unique = one_of_each(meant)
    return Choice(unique[0], Why.ONLY if len(unique) == 1 else Why.LIST_ORDER, unique)


def one_of_each(resources: Iterable[Resource]) -> list[Resource]:
    """Return the first of each group-resource."""
    found: dict[tuple[str, str], Resource] = {}
    for resource in resources:
        found.setdefault((resource.gv.group, resource.name), resource)
    return list(found.values())


def _name_rule(index: Index, reading: Reading) -> Rule:
    if reading.version and reading.version != INTERNAL_VERSION:
        return Rule.VERSION_AND_GROUP if reading.group else Rule.VERSION
    if not reading.group:
        return Rule.NAME
    return Rule.GROUP if reading.group in index.groups else Rule.GROUP_PREFIX


def _named(index: Index, reading: Reading) -> list[Resource]:
    """Return the resources of that plural or singular name, the most preferred first.

    In each group-version the last one of that name counts. Where the text names a version, its
    group is the whole group, otherwise it is a prefix; a group of exactly that name does not come
    before the others, for each group-version is asked for itself.
    Source: apimachinery pkg/api/meta/restmapper.go `DefaultRESTMapper.KindsFor`.
    """
    is_whole = reading.version and reading.group and reading.version != INTERNAL_VERSION
    last = {
        found.gv: found
        for found in index.words.get(reading.name.lower(), ())
        if reading.admits(found.gv) and (not is_whole or found.gv.group == reading.group)
    }
    return index.in_order(last.values())


def _mapped(index: Index, matched: Sequence[Resource]) -> Choice:
    """Return the resource that the kind of the first match leads back to.

    kubectl looks up the kind of what it found, and then the resource of that kind. That is another
    one where a group-version has two resources of one kind.
    """
    choice = Choice(matched[0], _why(index, matched), matched)
    return _last_of_kind(index.tables[matched[0].gv], matched[0], choice)


def _last_of_kind(table: Table, resource: Resource, choice: Choice) -> Choice:
    last = table.kinds[resource.kind]
    if last is not resource:
        return Choice(last, Why.LAST_OF_KIND, [last, *choice.matched])
    return choice


def _why(index: Index, matched: Sequence[Resource]) -> Why:
    """Return why the first of these comes before the second."""
    if len(matched) == 1:
        return Why.ONLY
    first, second = matched[0].gv, matched[1].gv
    if first == ALWAYS_FIRST:
        return Why.CORE
    if first.group != second.group:
        return Why.GROUP_ORDER
    is_preferred = index.groups[first.group][0].version.gv == first
    return Why.PREFERRED if is_preferred else Why.VERSION_ORDER


def meanings(index: Index, sought: Sequence[Reading], found: Found) -> list[Resource]:
    """Return each group-resource that a text could mean, the chosen one first, then in order.

    That is more than kubectl weighs: every plural, singular and short name and every kind in any
    case counts, in every group that the text admits, and what else has the kind of the chosen one
    in its group-version.
    """
    every = [found.resource, *same_kind(index.tables[found.resource.gv], found.resource)]
    for reading in sought:
        lower = reading.name.lower()
        named = [*index.words.get(lower, ()), *index.odd_kinds.get(lower, ())]
        short = index.short_names.get(reading.name, ())
        any_version = replace(reading, version="")  # as with short names in client-go
        every += index.in_order(
            [one for one in named if reading.admits(one.gv)]
            + [one for one in short if any_version.admits(one.gv)]
        )
    return one_of_each(every)
