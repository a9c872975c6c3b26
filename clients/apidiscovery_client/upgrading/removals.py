"""Which APIs of a cluster a release of Kubernetes does not serve, and whether they are called."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from apidiscovery_client.checking.versions import (
    ServedKinds,
    following,
    lifetime,
    replaced_after,
)
from apidiscovery_client.model import GroupVersion, GroupVersionKind, Resource
from apidiscovery_client.snapshots.releases import PREFIX, known_groups, release
from apidiscovery_client.upgrading.evidence import Called, Evidence
from apidiscovery_client.upgrading.model import Rule, Step

_MANIFESTS = "manifests/"


def removals(evidence: Evidence, target: str, kubectl: str) -> Iterator[Step]:
    """Yield a step for each built-in kind of a cluster that a release, or a later one, removes."""
    yield from _Removals(evidence, target, kubectl).steps()


@dataclass(frozen=True, slots=True)
class _Api:
    """A kind that is served, or was called.

    Attributes:
        call: What the metrics tell of calls; None where they tell of none.
    """

    gvk: GroupVersionKind
    resource: str
    call: Called | None

    @property
    def subject(self) -> str:
        return f"{GroupVersion(self.gvk.group, self.gvk.version)} {self.gvk.kind or self.resource}"


class _Removals:
    def __init__(self, evidence: Evidence, target: str, kubectl: str) -> None:
        self._evidence = evidence
        self._target = target
        self._kubectl = kubectl
        self._now = ServedKinds(evidence.snapshot)
        self._then = ServedKinds(release(target))
        self._off = ServedKinds(release(target, all_versions=True))
        # A group of Kubernetes may be taken by definitions, whose versions no release ends.
        self._custom = {
            (one.group, version) for one in evidence.definitions for version in one.served
        }

    def steps(self) -> Iterator[Step]:
        for api in self._apis():
            if step := self._step(api):
                yield step

    def _apis(self) -> Iterator[_Api]:
        """Yield the built-in kinds that are served, then what was called and is not listed."""
        calls = {(one.group, one.version, one.resource): one for one in self._evidence.called or ()}
        for version in self._evidence.snapshot.versions:
            gv = version.gv
            if gv.group in known_groups() and (gv.group, gv.version) not in self._custom:
                for one in version.resources:
                    gvk = GroupVersionKind(gv.group, gv.version, one.kind)
                    yield _Api(gvk, one.name, calls.pop((gv.group, gv.version, one.name), None))
        for call in calls.values():
            yield _Api(GroupVersionKind(call.group, call.version, ""), call.resource, call)

    def _step(self, api: _Api) -> Step | None:
        gvk, call = api.gvk, api.call
        if call and call.removed and _order(call.removed) <= _order(self._target):
            return self._removed(api, call.removed)
        if gvk.kind and self._then.resource(gvk) is None:
            if self._off.resource(gvk) is not None:
                return self._switched_off(api)
            known = lifetime(gvk)
            since = following(known.last) if known and known.last else self._target
            return self._removed(api, since if _order(since) <= _order(self._target) else "")
        return self._deprecated(api)

    def _removed(self, api: _Api, since: str) -> Step:
        new = self._then.replacement(api.gvk)
        ending = f"Kubernetes {since or self._target} does not serve it"
        use = self._use(api, new) if new else "nothing replaces it"
        if api.call:
            told = f"{ending}, and it is called; {use}"
            return Step(Rule.REMOVED_API_CALLED, api.subject, told, self._callers(api, new))
        calls = (
            "no call of it was seen"
            if self._evidence.called is not None
            else ("whether it is called is not known")
        )
        return Step(
            Rule.REMOVED_API, api.subject, f"{ending}; {calls}; {use}", self._check(self._target)
        )

    def _switched_off(self, api: _Api) -> Step:
        gv = GroupVersion(api.gvk.group, api.gvk.version)
        told = f"Kubernetes {self._target} serves it only with --runtime-config={gv}=true"
        return Step(Rule.API_OFF, api.subject, told, self._check(self._target))

    def _deprecated(self, api: _Api) -> Step | None:
        """Return a step for what a later release removes; None for what is known to stay."""
        known = lifetime(api.gvk) if api.gvk.kind else None
        until = known.last if known else ""
        if not until and not api.call:
            return None
        new = replaced_after(api.gvk, until) if until else ""
        removed = api.call.removed if api.call else ""
        removed = removed or (following(until) if until else "")
        ending = f"Kubernetes {removed} removes it" if removed else "it is deprecated"
        use = f"; {self._use(api, new)}" if new else ""
        if api.call:
            told = f"{ending}, and it is called{use}"
            return Step(Rule.DEPRECATED_API_CALLED, api.subject, told, self._callers(api, new))
        return Step(Rule.DEPRECATED_API, api.subject, ending + use, self._check(removed))

    @staticmethod
    def _check(against: str) -> str:
        return f"apidiscovery check -f {_MANIFESTS} --against {PREFIX}{against}"

    def _use(self, api: _Api, new: str) -> str:
        """Return what to use instead, and whether that must wait for a release in between."""
        later = "" if self._served_as(api, new) else ", which this cluster does not serve yet"
        return f"use {new}{later}"

    def _callers(self, api: _Api, new: str) -> str:
        """Return a command that shows who wrote objects by this version, or else the metric.

        It asks for another version, as asking for this one would count as a call.
        """
        gv = GroupVersion(api.gvk.group, api.gvk.version)
        resource = self._served_as(api, new)
        if resource is None:
            metric = "apiserver_requested_deprecated_apis"
            return f"{self._kubectl} get --raw /metrics | grep {metric}"
        name = ".".join(filter(None, (resource.name, resource.gv.version, resource.gv.group)))
        managers = (
            f'{{range .items[*].metadata.managedFields[?(@.apiVersion=="{gv}")]}}'
            '{.manager}{"\\n"}{end}'
        )
        return (
            f"{self._kubectl} get {shlex.quote(name)} --all-namespaces --show-managed-fields"
            f" -o jsonpath={shlex.quote(managers)} | sort | uniq -c"
        )

    def _served_as(self, api: _Api, new: str) -> Resource | None:
        """Return the resource of the same kind in another version that the cluster serves."""
        group, _, version = new.rpartition("/")
        return self._now.resource(GroupVersionKind(group, version, api.gvk.kind)) if new else None


def _order(name: str) -> tuple[int, ...]:
    """Return what names of releases are compared by; of one that cannot be read, the last."""
    parts = name.split(".")
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else (999,)
