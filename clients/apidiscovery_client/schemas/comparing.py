"""What is different between the schemas of two sources: files, servers, snapshots, releases."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from apidiscovery_client._fields import Fields
from apidiscovery_client.model import GroupVersion, GroupVersionKind
from apidiscovery_client.openapi.asking import key_of
from apidiscovery_client.openapi.json_documents import is_list, is_object
from apidiscovery_client.schema_diff import (
    Change,
    InvalidSchema,
    Outcome,
    Reading,
    Verdicts,
    compare,
    compare_definitions,
)
from apidiscovery_client.schema_diff.rules import answers_kept
from apidiscovery_client.schema_diff.schemas import Resolve
from apidiscovery_client.schema_diff.versions import schema_of
from apidiscovery_client.schemas.model import (
    OBJECT_META,
    Components,
    Documents,
    SchemaSource,
    versions_of,
)
from apidiscovery_client.snapshots.releases import known_groups

_GONE = Verdicts(Outcome.REJECTED, Reading.ABSENT)
_COMMON = ("apiVersion", "kind", "metadata")  # of every kind
_META = GroupVersionKind("meta", "v1", "ObjectMeta")  # stands for the metadata of every kind


@dataclass(frozen=True, slots=True)
class FieldChanges:
    """What is different, and what was not compared.

    Attributes:
        changes: In the order of groups, kinds, versions and fields.
        failures: Why something could not be compared, in one line, by group-version or by kind.
        uncovered: Groups that one side has and the other says nothing of.
    """

    changes: tuple[Change, ...]
    failures: Mapping[str, str]
    uncovered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Kind:
    """The schema of a kind, and how its references are followed."""

    schema: Fields
    resolve: Resolve | None = None

    @property
    def own(self) -> Fields:
        """The schema without what every kind has, which sources write in different ways."""
        fields = dict(self.schema)
        if is_object(properties := fields.get("properties")):
            fields["properties"] = {k: v for k, v in properties.items() if k not in _COMMON}
        if is_list(required := fields.get("required")):
            fields["required"] = [name for name in required if name not in _COMMON]
        return fields


class _Side:
    """A source, with the kinds that only it or both have definitions of."""

    def __init__(self, source: SchemaSource, other: SchemaSource) -> None:
        self.source = source
        self.defined = dict[GroupVersionKind, _Kind]()
        for name, definition in source.definitions.items():
            if name not in other.definitions:
                for gvk, version in versions_of(definition):
                    self.defined[gvk] = _Kind(schema_of(version))
        # Also those of definitions that both have, which are served whatever documents say.
        self.served = {
            GroupVersion(gvk.group, gvk.version)
            for definition in source.definitions.values()
            for gvk, _ in versions_of(definition)
        } | source.group_versions
        self.read = Documents()

    def fetch(self, other: "_Side") -> None:
        """Read the documents that are compared with something of the other side."""
        self.read = self.source.documents(self.source.group_versions & other.served)

    def components(self, gv: GroupVersion) -> Components:
        return self.read.found.get(gv, Components({}))

    @property
    def kinds(self) -> dict[GroupVersionKind, _Kind]:
        """The kinds that are compared by their schemas."""
        found = dict(self.defined)
        for gv, components in self.read.found.items():
            for kind, schema in components.kinds(gv).items():
                found[GroupVersionKind(gv.group, gv.version, kind)] = _Kind(
                    schema, components.resolve
                )
        return found


def compare_sources(old: SchemaSource, new: SchemaSource) -> FieldChanges:
    """Return what is different between the schemas of two sources.

    Definitions that both have go with that of the same name, with versions, names and subresources.
    All else goes by kind. What every kind has in its metadata is told once, of the kind ObjectMeta
    in `meta/v1`. Of servers only documents are read that the other side has too. A kind or
    group-version that one side alone has is a `version-removed` or `version-added`, unless the
    other is a file or release that says nothing of it.

    Raises:
        DiscoveryError: A source cannot be asked.
    """
    before, after = _Side(old, new), _Side(new, old)
    before.fetch(after)
    after.fetch(before)
    failures = {str(gv): why for side in (after, before) for gv, why in side.read.failures.items()}
    changes = list[Change]()
    for name in sorted(old.definitions.keys() & new.definitions.keys()):
        try:
            changes += compare_definitions(old.definitions[name], new.definitions[name])
        except InvalidSchema as error:
            failures[name] = str(error)
    unread = {*before.read.failures, *after.read.failures}
    changes += _metadata(before, after, failures)
    with answers_kept():
        changes += _kinds(before, after, unread, failures)
    changes += _versions(before, after)
    uncovered = sorted(
        {
            gv.group
            for one, other in ((before, after), (after, before))
            for gv in one.served - other.served
            if not other.source.is_partial and not other.source.covers(gv.group)
        }
    )
    ordered = sorted(changes, key=lambda one: (one.group, one.kind, _rank(one.version)))
    return FieldChanges(tuple(ordered), failures, tuple(uncovered))


def _rank(version: str) -> tuple[bool, str]:
    return bool(version), version  # changes of the definition, which have no version, first


def _tells(one: _Side, other: _Side, group: str) -> bool:
    """Tell whether it counts that a side has not what the other one has."""
    if one.source.is_partial:
        return other.source.is_partial
    return one.source.covers(group)


def _kinds(
    before: _Side, after: _Side, unread: set[GroupVersion], failures: dict[str, str]
) -> Iterator[Change]:
    old, new = before.kinds, after.kinds
    built_in = known_groups()
    for gvk in sorted({*old, *new}, key=lambda one: (one.group, one.kind, one.version)):
        gv = GroupVersion(gvk.group, gvk.version)
        if gv in unread:
            continue
        one, other = old.get(gvk), new.get(gvk)
        if one is None or other is None:
            has, lacks = (before, after) if other is None else (after, before)
            alone = gvk in has.defined and gv not in lacks.served
            if (alone or gv in lacks.served) and _tells(lacks, has, gvk.group):
                yield _only(gvk, removed=other is None)
            continue
        try:
            for change in compare(
                one.own,
                other.own,
                resolve_old=one.resolve,
                resolve_new=other.resolve,
                built_in=gvk.group in built_in,
            ):
                yield replace(change, group=gvk.group, version=gvk.version, kind=gvk.kind)
        except InvalidSchema as error:
            failures[f"{gv} {gvk.kind}"] = str(error)


def _only(gvk: GroupVersionKind, *, removed: bool) -> Change:
    change = "version-removed" if removed else "version-added"
    before, after = (gvk.version, None) if removed else (None, gvk.version)
    verdicts = _GONE if removed else Verdicts()
    return Change("", change, before, after, verdicts, gvk.group, gvk.version, gvk.kind)


def _versions(before: _Side, after: _Side) -> Iterator[Change]:
    """Yield the group-versions of which one side has a document and the other nothing."""
    for has, lacks, removed in ((before, after, True), (after, before, False)):
        defined = {GroupVersion(gvk.group, gvk.version) for gvk in has.defined}
        for gv in sorted(has.source.group_versions - lacks.served - defined, key=key_of):
            if _tells(lacks, has, gv.group):
                yield _only(GroupVersionKind(gv.group, gv.version, ""), removed=removed)


def _metadata(before: _Side, after: _Side, failures: dict[str, str]) -> Iterator[Change]:
    """Yield what is different in the metadata of built-in kinds, once for all."""
    for gv in sorted(before.read.found.keys() & after.read.found.keys(), key=key_of):
        one, other = before.components(gv), after.components(gv)
        old, new = (side.schemas.get(OBJECT_META) for side in (one, other))
        if not (is_object(old) and is_object(new)):
            continue
        try:
            for change in compare(
                old,
                new,
                resolve_old=one.resolve,
                resolve_new=other.resolve,
                path="metadata",
                built_in=True,
            ):
                yield replace(change, group=_META.group, version=_META.version, kind=_META.kind)
        except InvalidSchema as error:
            failures[f"{gv} {_META.kind}"] = str(error)
        return
