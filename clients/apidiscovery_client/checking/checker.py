"""Checks manifests against what a server serves, and against its schemas."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from apidiscovery_formats.openapi.pointers import Path

from apidiscovery_client.checking.fields import FieldCheck
from apidiscovery_client.checking.model import Checked, Finding, Rule
from apidiscovery_client.checking.versions import (
    ServedKinds,
    following,
    lifetime,
    replaced_after,
)
from apidiscovery_client.manifests import Manifest
from apidiscovery_client.model import GroupVersion, GroupVersionKind, Snapshot
from apidiscovery_client.schema_diff import InvalidSchema
from apidiscovery_client.schema_diff.schemas import Resolve, read
from apidiscovery_client.schema_diff.versions import schema_of
from apidiscovery_client.schemas.model import (
    Documents,
    SchemaSource,
    defaulted,
    versions_of,
)
from apidiscovery_client.schemas.sources import is_definition
from apidiscovery_client.snapshots.releases import known_groups


@dataclass(frozen=True, slots=True)
class _Found:
    """A finding whose line is not yet known."""

    rule: Rule
    path: Path
    message: str
    until: str = ""
    replaced_by: str = ""


@dataclass(frozen=True, slots=True)
class _Defined:
    """A version of a CustomResourceDefinition."""

    schema: Mapping[str, object]
    has_status: bool
    warning: str


def check(manifests: Iterable[Manifest], snapshot: Snapshot, schemas: SchemaSource) -> Checked:
    """Check manifests for a server.

    Kinds that definitions among the manifests define count as served. Documents are read only of
    the group-versions in the manifests.

    Args:
        manifests: In order.
        snapshot: What the server serves.
        schemas: Of the same server.

    Raises:
        DiscoveryError: The server cannot be asked for schemas.
    """
    given = list(manifests)
    checker = _Checker(given, snapshot, schemas)
    findings = [finding for manifest in given for finding in checker.check(manifest)]
    return Checked(schemas.name, len(given), tuple(findings), checker.unchecked)


def _kind_of(manifest: Manifest) -> GroupVersionKind:
    group, _, version = manifest.api_version.rpartition("/")
    return GroupVersionKind(group, version, manifest.kind)


class _Checker:
    def __init__(
        self, manifests: Sequence[Manifest], snapshot: Snapshot, schemas: SchemaSource
    ) -> None:
        self.unchecked = dict[str, str]()
        self._kinds = ServedKinds(snapshot)
        # Definitions among the manifests are applied first.
        applied = [defaulted(one.fields) for one in manifests if is_definition(one)]
        self._defined = {
            gvk: _Defined(schema_of(version), _has_status(version), _warning(gvk, version))
            for definition in (*schemas.definitions.values(), *applied)
            for gvk, version in versions_of(definition)
        }
        wanted = {_kind_of(one) for one in manifests} - self._defined.keys()
        gvs = {GroupVersion(gvk.group, gvk.version) for gvk in wanted}
        gvs &= schemas.group_versions
        self._documents = schemas.documents(gvs) if gvs else Documents()
        self._checks = dict[GroupVersionKind, FieldCheck | None]()

    def check(self, manifest: Manifest) -> Iterator[Finding]:
        """Yield the findings of a manifest in the order of lines."""
        found = list(self._found(manifest))
        if not found:
            return
        lines = manifest.lines([one.path for one in found])
        for line, one in sorted(zip(lines, found, strict=True), key=lambda pair: pair[0]):
            yield Finding(
                rule=one.rule,
                path=manifest.path,
                line=line,
                source=manifest.source,
                api_version=manifest.api_version,
                kind=manifest.kind,
                namespace=manifest.namespace,
                name=manifest.name,
                field=_field_text(one.path),
                message=one.message,
                until=one.until,
                replaced_by=one.replaced_by,
            )

    def _found(self, manifest: Manifest) -> Iterator[_Found]:
        if not manifest.api_version or not manifest.kind:
            missing = "apiVersion" if not manifest.api_version else "kind"
            told = f"{missing} is missing or no text; want an object of Kubernetes"
            yield _Found(Rule.NO_OBJECT, (), told)
            return
        gvk = _kind_of(manifest)
        defined = self._defined.get(gvk)
        if defined is None and self._kinds.resource(gvk) is None:
            yield from self._absent(gvk)
            return
        yield from _ending(gvk)
        if defined is not None and defined.warning:
            yield _Found(Rule.DEPRECATED, ("apiVersion",), defined.warning)
        check = self._check_of(gvk)
        if check is None:
            return
        try:
            for problem in check.problems(manifest.fields):
                yield _Found(problem.rule, problem.path, problem.message)
        except (InvalidSchema, RecursionError) as error:
            self._not_checked(gvk, str(error))

    def _absent(self, gvk: GroupVersionKind) -> Iterator[_Found]:
        if doubt := self._kinds.doubt(gvk):
            self.unchecked[str(GroupVersion(gvk.group, gvk.version))] = doubt
            return
        if gvk.kind.endswith("List") and self._kinds.versions_of_group(gvk):
            return  # an empty list: a server has kinds of lists that discovery does not name
        until, replaced = "", self._kinds.replacement(gvk)
        known = lifetime(gvk)
        told = "it is not served"
        if known and known.last:
            until = known.last
            told = f"it is not served: Kubernetes {following(until)} removed it"
        elif known:
            told = f"it is not served: Kubernetes has it since {known.first}"
        hint = f"; use {replaced}" if replaced else "; no other version has this kind"
        yield _Found(Rule.NOT_SERVED, ("apiVersion",), told + hint, until, replaced)

    def _check_of(self, gvk: GroupVersionKind) -> FieldCheck | None:
        if gvk not in self._checks:
            self._checks[gvk] = self._made(gvk)
        return self._checks[gvk]

    def _made(self, gvk: GroupVersionKind) -> FieldCheck | None:
        if (defined := self._defined.get(gvk)) is not None:
            return _field_check(defined.schema, None, is_custom=True, has_status=defined.has_status)
        gv = GroupVersion(gvk.group, gvk.version)
        components = self._documents.found.get(gv)
        schema = components.kinds(gv).get(gvk.kind) if components else None
        if components is None or schema is None:
            why = self._documents.failures.get(gv, "the server has no schema of it")
            self._not_checked(gvk, why)
            return None
        resource = self._kinds.resource(gvk)
        has_status = resource is not None and resource.subresource("status") is not None
        try:
            return _field_check(
                schema,
                components.resolve,
                is_custom=gvk.group not in known_groups(),
                has_status=has_status,
            )
        except InvalidSchema as error:
            self._not_checked(gvk, str(error))
            return None

    def _not_checked(self, gvk: GroupVersionKind, why: str) -> None:
        self.unchecked[f"{GroupVersion(gvk.group, gvk.version)} {gvk.kind}"] = why


def _field_check(
    schema: Mapping[str, object], resolve: Resolve | None, *, is_custom: bool, has_status: bool
) -> FieldCheck:
    return FieldCheck(read(schema, resolve), is_custom=is_custom, has_status=has_status)


def _ending(gvk: GroupVersionKind) -> Iterator[_Found]:
    known = lifetime(gvk)
    if known is None or not known.last:
        return
    replaced = replaced_after(gvk, known.last)
    hint = f"use {replaced}" if replaced else "nothing replaces it"
    told = f"served until Kubernetes {known.last}; {hint}"
    yield _Found(Rule.REMOVED_LATER, ("apiVersion",), told, known.last, replaced)


def _has_status(version: Mapping[str, object]) -> bool:
    subresources = version.get("subresources")
    return isinstance(subresources, dict) and "status" in subresources


def _warning(gvk: GroupVersionKind, version: Mapping[str, object]) -> str:
    if version.get("deprecated") is not True:
        return ""
    default = f"{GroupVersion(gvk.group, gvk.version)} {gvk.kind} is deprecated"
    return str(version.get("deprecationWarning") or default)


def _field_text(path: Path) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
