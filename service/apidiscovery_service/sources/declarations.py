"""The declarations of all origins, turned into contributions.

An origin is a manifest file (`manifests:PATH`) or a registration (`registrations:KIND/NAME`). If
several declare the same name, the first by the name of the origin is in force, so files come before
registrations; the next one takes over when it is withdrawn.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Generic, TypeAlias, TypeVar

import structlog

from apidiscovery_service.core.model import CORE_GROUP, Contribution, Freshness, Offer, Precedence
from apidiscovery_service.core.registry import Registry, Update
from apidiscovery_service.errors import InvalidContribution
from apidiscovery_service.openapi.entries import group_of
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

# Of a group, by name: what is in force, and whether it is stale.
_Members: TypeAlias = Mapping[str, tuple[CustomResourceDefinition, bool]]


def crd_source(group: str) -> str:
    """Return the name of the source of a group's CustomResourceDefinitions."""
    return f"crds:{group}"


class Declarations:
    """Publishes declarations to a registry. It belongs to the thread of the registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._origins: set[str] = set()
        self._crds: _Names[tuple[CustomResourceDefinition, bool]] = _Names()
        self._api_services: _Names[ApiService] = _Names()
        self._in_force: dict[str, CustomResourceDefinition] = {}
        # group -> name -> status, of those in force
        self._statuses: dict[str, dict[str, CrdStatus]] = {}
        self._service_listeners: list[Callable[[], None]] = []
        self._documents: dict[str, Mapping[str, bytes]] = {}
        self._document_listeners: list[Callable[[frozenset[str]], None]] = []

    def update(
        self,
        declared: Mapping[str, Declared],
        withdrawn: Iterable[str] = (),
        prepared: Update | None = None,
        cause: str = "",
    ) -> None:
        """Replace the declarations of origins, in one step.

        Args:
            declared: By origin.
            withdrawn: Origins to remove; unknown ones are ignored, and one in `declared` stays.
            prepared: The result of `prepare` for the same change, if there is one.
            cause: As of `Registry.update`.

        Raises:
            InvalidContribution: An origin declares something twice; then nothing is changed.
        """
        for origin, what in declared.items():
            _refuse_twice(origin, what)
        changes = {
            origin: declared.get(origin, _NOTHING)
            for origin in (*declared, *withdrawn)
            if origin in declared or origin in self._origins
        }
        contributions = [
            Contribution(origin, Precedence.BUILTIN, _offers(what))
            for origin, what in changes.items()
            if what.offers
        ]
        gone = [origin for origin, what in changes.items() if not what.offers]
        crds, services = self._take(changes)
        documents = self._take_documents(changes)
        offered = self._settle(crds)
        for group, offers in offered.items():
            if offers:
                contributions.append(Contribution(crd_source(group), Precedence.CRD, offers))
            else:
                gone.append(crd_source(group))
        self._registry.update(contributions, gone, prepared, cause)
        for listener in self._service_listeners if services else ():
            listener()
        groups = documents | offered.keys()
        for document_listener in self._document_listeners if groups else ():
            document_listener(frozenset(groups))

    def _take(self, changes: Mapping[str, Declared]) -> tuple[set[str], set[str]]:
        """Take the new declarations of origins.

        Returns:
            The names of the CustomResourceDefinitions, and of the APIServices, that are in force or
            no longer in force by this change.
        """
        crds: set[str] = set()
        services: set[str] = set()
        for origin, what in changes.items():
            crds |= self._crds.replace(origin, {crd.name: (crd, what.stale) for crd in what.crds})
            services |= self._api_services.replace(
                origin, {service.name: service for service in what.api_services}
            )
        self._origins.difference_update(changes)
        self._origins.update(origin for origin, what in changes.items() if what is not _NOTHING)
        return crds, services

    def _take_documents(self, changes: Mapping[str, Declared]) -> set[str]:
        """Take the new documents of origins; return the groups of those that differ."""
        groups: set[str] = set()
        for origin, what in changes.items():
            before = self._documents.pop(origin, {})
            if what.documents:
                self._documents[origin] = what.documents
            for path in before.keys() | what.documents.keys():
                if before.get(path) != what.documents.get(path):
                    groups.add(group_of(path) or CORE_GROUP)
        return groups

    def _settle(self, names: Iterable[str]) -> dict[str, tuple[Offer, ...]]:
        """Decide all statuses in the groups of these definitions; return what each group offers."""
        members: dict[str, set[str]] = {}
        for name in names:
            group = name.partition(".")[2]
            members.setdefault(group, set(self._statuses.get(group, ())))
            if name in self._crds.in_force:
                members[group].add(name)
                self._in_force[name] = self._crds.in_force[name][0]
            else:
                members[group].discard(name)
                self._in_force.pop(name, None)
        offers: dict[str, tuple[Offer, ...]] = {}
        for group, present in members.items():
            in_force = {name: self._crds.in_force[name] for name in present}
            statuses, offers[group] = _settled(in_force)
            _log_names(self._statuses.pop(group, {}), statuses)
            if present:
                self._statuses[group] = statuses
        return offers

    def prepare(self, crd: CustomResourceDefinition) -> Update | None:
        """Merge a definition ahead of its declaration; what is served stays as it is.

        Returns:
            As `Registry.prepare`; None if its group offers nothing.

        Raises:
            InvalidContribution: Its group offers something twice.
        """
        members = {name: self._crds.in_force[name] for name in self._statuses.get(crd.group, ())}
        _, offers = _settled({**members, crd.name: (crd, False)})
        if not offers:
            return None
        return self._registry.prepare(Contribution(crd_source(crd.group), Precedence.CRD, offers))

    @property
    def crds(self) -> Mapping[str, CustomResourceDefinition]:
        """The CustomResourceDefinitions in force, by name."""
        return MappingProxyType(self._in_force)

    def statuses(self, group: str) -> Mapping[str, CrdStatus]:
        """Return the status of each CustomResourceDefinition in force of a group, by name."""
        return MappingProxyType(self._statuses.get(group, {}))

    def defines(self, group: str, version: str) -> bool:
        """Tell whether a group-version is served from CustomResourceDefinitions."""
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
        return self._documents.get(origin, {}).get(path)

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
        in_force: For each name the declaration of the first origin.
    """

    def __init__(self) -> None:
        self.in_force: dict[str, T] = {}
        self._by_origin: dict[str, dict[str, T]] = {}
        self._by_name: dict[str, dict[str, T]] = {}

    def replace(self, origin: str, declared: dict[str, T]) -> set[str]:
        """Replace the declarations of an origin.

        Returns:
            The names whose declaration in force has changed.
        """
        before = self._by_origin.pop(origin, {})
        if declared:
            self._by_origin[origin] = declared
        changed: set[str] = set()
        for name in before.keys() | declared.keys():
            origins = self._by_name.setdefault(name, {})
            origins.pop(origin, None)
            if name in declared:
                origins[origin] = declared[name]
            if self._choose(name, origins):
                changed.add(name)
        return changed

    def _choose(self, name: str, origins: dict[str, T]) -> bool:
        """Put the declaration of the first origin in force; tell whether that is a change."""
        if not origins:
            del self._by_name[name]
            del self.in_force[name]
            return True
        chosen = origins[min(origins)]
        changed = name not in self.in_force or self.in_force[name] != chosen
        self.in_force[name] = chosen
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


def _settled(members: _Members) -> tuple[dict[str, CrdStatus], tuple[Offer, ...]]:
    """Return the status of each definition of a group by name, and what they offer together."""
    statuses = crd_names.statuses(crd for crd, _ in members.values())
    stale = {name for name, (_, is_stale) in members.items() if is_stale}
    return statuses, group_offers((members[name][0] for name in statuses), statuses, stale)


def _offers(declared: Declared) -> tuple[Offer, ...]:
    if not declared.stale:
        return declared.offers
    return tuple(
        replace(offer, version=replace(offer.version, freshness=Freshness.STALE))
        for offer in declared.offers
    )


def _refuse_twice(origin: str, declared: Declared) -> None:
    for kind, names in (
        ("", [f"{o.group}/{o.version.version}".lstrip("/") for o in declared.offers]),
        ("CustomResourceDefinition ", [crd.name for crd in declared.crds]),
        ("APIService ", [service.name for service in declared.api_services]),
    ):
        if len(set(names)) < len(names):
            twice = next(name for place, name in enumerate(names) if name in names[:place])
            raise InvalidContribution(f"{origin} declares {kind}{twice} twice")
