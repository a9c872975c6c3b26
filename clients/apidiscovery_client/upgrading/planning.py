"""Makes the steps before an upgrade from the facts of a cluster."""

import json
import shlex
from collections.abc import Iterator
from functools import cache

from apidiscovery_client._errors import InvalidConfiguration
from apidiscovery_client.model import CURRENT
from apidiscovery_client.schema_diff import Change
from apidiscovery_client.schemas import ReleasedSchemas, compare_sources
from apidiscovery_client.snapshots.releases import PREFIX, release
from apidiscovery_client.upgrading.evidence import Definition, Evidence
from apidiscovery_client.upgrading.model import Plan, Rule, Step
from apidiscovery_client.upgrading.removals import removals

_OF_KINDS = ("version-removed", "version-added")  # the discovery tells of them


def plan(evidence: Evidence, target: str, kubectl: str = "kubectl") -> Plan:
    """Return the steps before a cluster is upgraded.

    Args:
        evidence: The facts of the cluster.
        target: A release, such as `1.36`, `v1.36` or `1.36.2`; only the minor version counts.
        kubectl: How kubectl is run for this cluster, as words of a shell.

    Raises:
        InvalidConfiguration: The target is not a known release, or older than that of the cluster.
    """
    name = release(target).server.removeprefix(PREFIX)
    if evidence.release and _minor(evidence.release) > _minor(name):
        raise InvalidConfiguration(
            f"{evidence.name}: it runs Kubernetes {evidence.release}, which is newer than {name};"
            " want a later release to upgrade to"
        )
    unread = dict(evidence.unread)
    fields = _fields(evidence.release, name, unread)
    steps = [
        *_webhooks(evidence, kubectl),
        *_api_services(evidence, kubectl),
        *_stored_versions(evidence, kubectl),
        *_storage_versions(evidence, kubectl),
        *_stale(evidence, kubectl),
        *removals(evidence, name, kubectl),
        *_field_step(evidence.release, name, fields),
    ]
    ordered = sorted(steps, key=lambda step: step.rank)
    return Plan(evidence.name, evidence.release, name, tuple(ordered), fields, unread)


def _minor(name: str) -> int:
    return int(name.partition(".")[2])


def _webhooks(evidence: Evidence, kubectl: str) -> Iterator[Step]:
    for (namespace, name), why in evidence.webhooks.items():
        users = [one.name for one in evidence.definitions if one.service == (namespace, name)]
        yield Step(
            Rule.WEBHOOK_DOWN,
            f"Service {namespace}/{name}",
            f"{why}: conversion of {', '.join(users)} between versions fails",
            f"{kubectl} --namespace {shlex.quote(namespace)} get"
            f" {shlex.quote(f'service/{name}')} endpointslices,pods",
        )


def _api_services(evidence: Evidence, kubectl: str) -> Iterator[Step]:
    for name, why in evidence.api_services.items():
        yield Step(
            Rule.API_SERVICE_DOWN,
            f"APIService {name}",
            f"not available: {why}",
            f"{kubectl} describe {shlex.quote(f'apiservices.apiregistration.k8s.io/{name}')}",
        )


def _stored_versions(evidence: Evidence, kubectl: str) -> Iterator[Step]:
    for one in evidence.definitions:
        if going := [version for version in one.stored if _why_going(one, version)]:
            told = ", ".join(f"{version} ({_why_going(one, version)})" for version in going)
            yield Step(
                Rule.STORED_VERSION,
                f"CustomResourceDefinition {one.name}",
                f"objects may be stored in {told}; rewrite them in {one.storage}",
                _rewriting(one, kubectl),
            )


def _why_going(definition: Definition, version: str) -> str:
    """Return why a stored version should be rewritten; empty where it need not be."""
    if version == definition.storage:
        return ""
    if version not in definition.served:
        return "no longer defined"
    if not definition.served[version]:
        return "not served"
    return "deprecated" if version in definition.deprecated else ""


def _rewriting(definition: Definition, kubectl: str) -> str:
    """Return a command that rewrites all objects, and then updates the status.

    Source: kubernetes.io, Versions in CustomResourceDefinitions, "Upgrade existing objects to a new
    stored version".
    """
    status = json.dumps({"status": {"storedVersions": [definition.storage]}})
    return (
        f"{kubectl} get {shlex.quote(definition.name)} --all-namespaces -o json"
        f" | {kubectl} replace -f -"
        f" && {kubectl} patch customresourcedefinition {shlex.quote(definition.name)}"
        f" --subresource=status --type=merge -p {shlex.quote(status)}"
    )


def _storage_versions(evidence: Evidence, kubectl: str) -> Iterator[Step]:
    for name, why in evidence.lagging.items():
        yield Step(
            Rule.STORAGE_VERSION_LAGS,
            f"StorageVersion {name}",
            f"API servers write different versions: {why}",
            f"{kubectl} wait --for=condition=AllEncodingVersionsEqual"
            f" {shlex.quote(f'storageversions.internal.apiserver.k8s.io/{name}')}",
        )


def _stale(evidence: Evidence, kubectl: str) -> Iterator[Step]:
    for version in evidence.snapshot.versions:
        gv = version.gv
        name = f"{gv.version}.{gv.group}"
        if version.freshness == CURRENT or name in evidence.api_services:
            continue
        reason = getattr(version.freshness, "reason", "") or "it is stale"
        yield Step(
            Rule.STALE_DISCOVERY,
            str(gv),
            f"what it serves now is not known: {reason}",
            f"{kubectl} get --raw {shlex.quote(gv.path)}",
        )


@cache
def _breaking(before: str, after: str) -> tuple[Change, ...]:
    """Return changes of fields between releases that break somebody, then those that may."""
    found = compare_sources(ReleasedSchemas(before), ReleasedSchemas(after)).changes
    own = [one for one in found if one.change not in _OF_KINDS]
    broken = [one for one in own if one.verdicts.breaks]
    return (*broken, *(o for o in own if not o.verdicts.breaks and o.verdicts.has_unknown))


def _fields(before: str, after: str, unread: dict[str, str]) -> tuple[Change, ...]:
    what = "changes of fields"
    if not before:
        unread[what] = "the release of the cluster is not known"
        return ()
    try:
        return _breaking(before, after)
    except InvalidConfiguration as error:
        unread[what] = str(error)
        return ()


def _field_step(before: str, after: str, changes: tuple[Change, ...]) -> Iterator[Step]:
    if not changes:
        return
    kinds = len({(one.group, one.kind) for one in changes})
    breaking = sum(one.verdicts.breaks for one in changes)
    doubtful = f", {len(changes) - breaking} not decided" if breaking < len(changes) else ""
    yield Step(
        Rule.FIELDS_CHANGED,
        "fields of built-in kinds",
        f"{breaking} breaking changes{doubtful} in {kinds} kind{'' if kinds == 1 else 's'} between"
        f" Kubernetes {before} and {after}",
        f"apidiscovery diff {PREFIX}{before} {PREFIX}{after} --fields --breaking-only",
    )
