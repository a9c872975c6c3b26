"""The declarations of all origins, turned into contributions.

An origin is a manifest file (`manifests:PATH`) or a registration (`registrations:KIND/NAME`). If
several declare the same name, the first by the name of the origin is in force, so files come before
registrations; the next one takes over when it is withdrawn.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Generic, TypeVar

import structlog
from apidiscovery_formats.openapi.keys import group_of

from apidiscovery_service.core.model import CORE_GROUP, Contribution, Freshness, Offer, Precedence
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.sources.api_service import ApiService
from apidiscovery_service.sources.crds import names as crd_names
from apidiscovery_service.sources.crds.discovery import group_offers
from apidiscovery_service.sources.crds.model import CustomResourceDefinition
from apidiscovery_service.sources.crds.names import CrdStatus

_log = structlog.get_logger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Declared:
    """All that one origin declares.

    Attributes:
        offers: Of its discovery lists; at most one of each group-version.
        crds: At most one of each name.
        api_services: At most one of each name.
        stale: Whether its owner has stopped renewing; everything is offered as Stale then.
        documents: OpenAPI v3 documents of group-versions that it offers, as canonical JSON
            compressed with zstd, by path without leading slash, such as `apis/apps/v1`.
    """

    offers: tuple[Offer, ...] = ()
    crds: tuple[CustomResourceDefinition, ...] = ()
    api_services: tuple[ApiService, ...] = ()
    stale: bool = False
    documents: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


_NOTHING = Declared()


def crd_source(group: str) -> str:
    """Return the name of the source of a group's CustomResourceDefinitions."""
    return f"crds:{group}"


class Declarations:
    """Publishes declarations to a registry. It belongs to the thread of the registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._origins: dict[str, Declared] = {}
        self._crds: _Names[tuple[CustomResourceDefinition, bool]] = _Names()
        self._api_services: _Names[ApiService] = _Names()
        # group -> name -> status, of those in force
        self._statuses: dict[str, dict[str, CrdStatus]] = {}
        self._service_listeners: list[Callable[[], None]] = []
        self._document_listeners: list[Callable[[frozenset[str]], None]] = []

    def update(
        self, declared: Mapping[str, Declared], withdrawn: Iterable[str] = (), cause: str = ""
    ) -> None:
        """Replace the declarations of origins, in one step.

        Args:
            declared: By origin.
            withdrawn: Origins to remove; unknown ones are ignored, and one in `declared` stays.
            cause: As of `Registry.update`.
        """
        changes = {**dict.fromkeys(withdrawn, _NOTHING), **declared}
        contributions: list[Contribution] = []
        crds: set[str] = set()
        services: set[str] = set()
        documents: set[str] = set()
        for origin, after in changes.items():
            before = self._origins.pop(origin, _NOTHING)
            if after is not _NOTHING:
                self._origins[origin] = after
            crds |= self._crds.replace(origin, _crds(before), _crds(after))
            services |= self._api_services.replace(origin, _services(before), _services(after))
            documents |= _changed_documents(before, after)
            contributions.append(Contribution(origin, Precedence.BUILTIN, _offers(after)))
        settled = self._settle(crds)
        contributions += [
            Contribution(crd_source(group), Precedence.CRD, offers)
            for group, offers in settled.items()
        ]
        self._registry.update(
            [one for one in contributions if one.offers],
            [one.source for one in contributions if not one.offers],
            cause,
        )
        for listener in self._service_listeners if services else ():
            listener()
        groups = frozenset(documents | settled.keys())
        for document_listener in self._document_listeners if groups else ():
            document_listener(groups)

    def _settle(self, names: Iterable[str]) -> dict[str, tuple[Offer, ...]]:
        """Decide the statuses in the groups of these definitions; return the offers by group."""
        members: dict[str, set[str]] = {}
        for name in names:
            group = name.partition(".")[2]
            members.setdefault(group, set(self._statuses.get(group, ()))).add(name)
        offers: dict[str, tuple[Offer, ...]] = {}
        for group, candidates in members.items():
            in_force = {name: one for name in candidates if (one := self._crds.in_force.get(name))}
            statuses = crd_names.statuses(crd for crd, _ in in_force.values())
            stale = {name for name, (_, is_stale) in in_force.items() if is_stale}
            offers[group] = group_offers((in_force[n][0] for n in statuses), statuses, stale)
            _log_names(self._statuses.pop(group, {}), statuses)
            if statuses:
                self._statuses[group] = statuses
        return offers

    def crd(self, name: str) -> CustomResourceDefinition | None:
        """Return the CustomResourceDefinition of this name that is in force; None for none."""
        found = self._crds.in_force.get(name)
        return found[0] if found else None

    def crds(self, group: str) -> dict[str, CustomResourceDefinition]:
        """Return the CustomResourceDefinitions in force of a group, by name."""
        return {name: self._crds.in_force[name][0] for name in self._statuses.get(group, ())}

    def statuses(self, group: str) -> Mapping[str, CrdStatus]:
        """Return the status of each CustomResourceDefinition in force of a group, by name."""
        return MappingProxyType(self._statuses.get(group, {}))

    def defines(self, group: str, version: str) -> bool:
        """Return whether a group-version is served from CustomResourceDefinitions."""
        return self._registry.winners(group).get(version) == crd_source(group)

    def warnings(self) -> list[str]:
        """Return a line for each CustomResourceDefinition whose names another one has, sorted."""
        taken = {
            name: words
            for several in self._statuses.values()
            for name, one in several.items()
            if (words := one.names_taken)
        }
        return [f"CustomResourceDefinition {name} {taken[name]}" for name in sorted(taken)]

    @property
    def api_services(self) -> Mapping[str, ApiService]:
        """The APIServices in force, by name."""
        return MappingProxyType(self._api_services.in_force)

    def on_api_services(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every change of the APIServices in force."""
        self._service_listeners.append(listener)

    def on_documents(self, listener: Callable[[frozenset[str]], None]) -> None:
        """Call `listener` after every change on which OpenAPI documents depend.

        These are the definitions in force, also if discovery stays the same, and the documents of
        origins. It is called with the names of their groups; empty text is the core group.
        """
        self._document_listeners.append(listener)

    def document(self, origin: str, path: str) -> bytes | None:
        """Return the OpenAPI document that an origin declares for a path; None for none.

        Args:
            origin: As in `update`.
            path: Without leading slash, such as `apis/apps/v1`.
        """
        return self._origins.get(origin, _NOTHING).documents.get(path)

    def conflicts(self) -> list[str]:
        """Return a line for each name that several origins declare, sorted."""
        kinds = (("CustomResourceDefinition", self._crds), ("APIService", self._api_services))
        return [
            f"{kind} {name} is declared by {' and '.join(origins)}; the first is in force"
            for kind, names in kinds
            for name, origins in names.conflicts()
        ]


class _Names(Generic[T]):
    """The declarations of one kind by name.

    Attributes:
        in_force: The declaration of the first origin, by name.
    """

    def __init__(self) -> None:
        self.in_force: dict[str, T] = {}
        self._by_name: dict[str, dict[str, T]] = {}

    def replace(self, origin: str, before: Mapping[str, T], after: Mapping[str, T]) -> set[str]:
        """Replace the declarations of an origin; return the names whose declaration changes."""
        changed: set[str] = set()
        for name in before.keys() | after.keys():
            origins = self._by_name.setdefault(name, {})
            origins.pop(origin, None)
            if name in after:
                origins[origin] = after[name]
            former = self.in_force.get(name)
            if origins:
                self.in_force[name] = origins[min(origins)]
            else:
                del self._by_name[name]
                del self.in_force[name]
            if self.in_force.get(name) != former:
                changed.add(name)
        return changed

    def conflicts(self) -> list[tuple[str, list[str]]]:
        """Return each name with several origins, and these; both sorted."""
        return [
            (name, sorted(origins))
            for name, origins in sorted(self._by_name.items())
            if len(origins) > 1
        ]


def _log_names(before: Mapping[str, CrdStatus], after: Mapping[str, CrdStatus]) -> None:
    """Log definitions that lose or get their names."""
    for name, status in after.items():
        was = before[name].names_taken if name in before else ""
        if status.names_taken and status.names_taken != was:
            _log.warning(f"CustomResourceDefinition {name} {status.names_taken}")
        elif was and not status.names_taken:
            _log.info(f"CustomResourceDefinition {name} has its names")


def _crds(declared: Declared) -> dict[str, tuple[CustomResourceDefinition, bool]]:
    """Return the definitions by name, each with whether it is stale."""
    return {crd.name: (crd, declared.stale) for crd in declared.crds}


def _services(declared: Declared) -> dict[str, ApiService]:
    return {service.name: service for service in declared.api_services}


def _offers(declared: Declared) -> tuple[Offer, ...]:
    if not declared.stale:
        return declared.offers
    return tuple(
        replace(offer, version=replace(offer.version, freshness=Freshness.STALE))
        for offer in declared.offers
    )


def _changed_documents(before: Declared, after: Declared) -> set[str]:
    """Return the groups whose documents differ."""
    return {
        group_of(path) or CORE_GROUP
        for path in before.documents.keys() | after.documents.keys()
        if before.documents.get(path) != after.documents.get(path)
    }
