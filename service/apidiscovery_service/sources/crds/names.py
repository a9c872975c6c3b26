"""Which names CustomResourceDefinitions of one group get, and their conditions.

Plural, singular and short names share one space of names, kind and list kind another. What is
accepted stays accepted; a field that would take another's name keeps what it had.

Source: k8s.io/apiextensions-apiserver pkg/controller/status/naming_controller.go:
calculateNamesAndConditions. There the order of arrival decides between two that want the same
name; here it is the time of creation, so that all replicas decide alike.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.sources.crds import approval as crd_approval
from apidiscovery_service.sources.crds.model import Condition, CustomResourceDefinition, Names

ESTABLISHED = "Established"
NAMES_ACCEPTED = "NamesAccepted"
TERMINATING = "Terminating"

_NOTHING = Names("", "", "", "")


@dataclass(frozen=True, slots=True)
class CrdStatus:
    """What a CustomResourceDefinition has become.

    Attributes:
        accepted: Fields that are not accepted are empty, or as they were accepted before.
        stored_versions: At least the storage version, unless the document tells otherwise.
    """

    accepted: Names
    conditions: tuple[Condition, ...]
    stored_versions: tuple[str, ...]

    @property
    def names_taken(self) -> str:
        """What it wants and another has, in words; empty when it has all its names."""
        for condition in self.conditions:
            if condition.type == NAMES_ACCEPTED and condition.status == "False":
                where = "under the names that it had" if self.is_true(ESTABLISHED) else "nowhere"
                return f"is served {where}: {condition.reason}: {condition.message}"
        return ""

    def is_true(self, condition: str) -> bool:
        """Tell whether there is a condition and it is true."""
        return any(c.type == condition and c.status == "True" for c in self.conditions)


def statuses(crds: Iterable[CustomResourceDefinition]) -> dict[str, CrdStatus]:
    """Return the status of each CustomResourceDefinition of a group by its name.

    A status in a document counts: where it is final and has conditions, they and the accepted
    names are what its server says, and stand; otherwise accepted names are kept until others can
    be had, and what is established stays so. Between the rest the one created earlier goes first,
    those without a time last, then the name decides.

    Returns:
        In that order, which does not depend on the order of the argument.
    """
    ordered = sorted(crds, key=lambda crd: (not crd.created, crd.created, crd.name))
    if _is_undisputed(ordered):
        return {crd.name: _status(crd, crd.names, ()) for crd in ordered}
    claims = _Claims(ordered)
    while _claim_all(ordered, claims):
        pass
    return {
        crd.name: _status(crd, claims.accepted[crd.name], claims.conflicts(crd)) for crd in ordered
    }


def is_of_another(name: str, names: Names, crds: Iterable[CustomResourceDefinition]) -> bool:
    """Tell whether any of these names is accepted for another of some CustomResourceDefinitions.

    Only what their documents say counts, which may be more than they want by now.
    """
    resources, kinds = set(_resources(names)), set(_kinds(names))
    others = [_stated_names(crd) for crd in crds if crd.name != name]
    return any(
        not (resources.isdisjoint(_resources(other)) and kinds.isdisjoint(_kinds(other)))
        for other in others
    )


def _is_undisputed(crds: Iterable[CustomResourceDefinition]) -> bool:
    """Tell whether each can have all that it wants, whichever goes first."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for crd in crds:
        stated = _stated_names(crd)
        if _is_settled(crd) and stated != crd.names:
            return False
        own_resources = {*_resources(stated), *_resources(crd.names)}
        own_kinds = {*_kinds(stated), *_kinds(crd.names)}
        if not (resources.isdisjoint(own_resources) and kinds.isdisjoint(own_kinds)):
            return False
        resources |= own_resources
        kinds |= own_kinds
    return True


def _claim_all(crds: Iterable[CustomResourceDefinition], claims: "_Claims") -> bool:
    """Let each take what it can get; True when names were set free, which others may now get.

    It ends: a field that has what it wants keeps it.
    """
    freed = False
    for crd in crds:
        if not _is_settled(crd):
            before = claims.accepted[crd.name]
            after = claims.available(crd)
            claims.take(crd.name, after)
            freed |= not {*_resources(before), *_kinds(before)} <= {
                *_resources(after),
                *_kinds(after),
            }
    return freed


def _is_settled(crd: CustomResourceDefinition) -> bool:
    """Tell whether the document says itself what is accepted."""
    return bool(_final_conditions(crd)) and _stated_names(crd) != _NOTHING


def _final_conditions(crd: CustomResourceDefinition) -> tuple[Condition, ...]:
    return crd.stated.conditions if crd.stated and crd.stated.final else ()


def _stated_established(crd: CustomResourceDefinition) -> Condition | None:
    for condition in crd.stated.conditions if crd.stated else ():
        if (condition.type, condition.status) == (ESTABLISHED, "True"):
            return condition
    return None


def _stated_names(crd: CustomResourceDefinition) -> Names:
    """Return the names that the document says are accepted; one that is established has them."""
    accepted = (crd.stated and crd.stated.accepted) or _NOTHING
    if _stated_established(crd) and not (accepted.plural and accepted.kind):
        return crd.names
    return accepted


def _resources(names: Names) -> Iterator[str]:
    """Yield the names that stand for a resource in URLs and on command lines, once each."""
    yield from {names.plural, names.singular, *names.short_names} - {""}


def _kinds(names: Names) -> Iterator[str]:
    yield from {names.kind, names.list_kind} - {""}


class _Claims:
    """The names that are taken in a group.

    Attributes:
        accepted: What each has, by name of the CustomResourceDefinition.
    """

    def __init__(self, crds: Iterable[CustomResourceDefinition]) -> None:
        self.accepted = {crd.name: _stated_names(crd) for crd in crds}
        self._resources = Counter(n for names in self.accepted.values() for n in _resources(names))
        self._kinds = Counter(n for names in self.accepted.values() for n in _kinds(names))

    def take(self, name: str, names: Names) -> None:
        """Give a CustomResourceDefinition these names in place of those that it had."""
        before = self.accepted[name]
        self._resources.subtract(_resources(before))
        self._resources.update(_resources(names))
        self._kinds.subtract(_kinds(before))
        self._kinds.update(_kinds(names))
        self.accepted[name] = names

    def available(self, crd: CustomResourceDefinition) -> Names:
        """Return what it can have of the names it wants."""
        want, have = crd.names, self.accepted[crd.name]
        taken = {field for field, _ in self.conflicts(crd)}
        return Names(
            plural=have.plural if "Plural" in taken else want.plural,
            singular=have.singular if "Singular" in taken else want.singular,
            kind=have.kind if "Kind" in taken else want.kind,
            list_kind=have.list_kind if "ListKind" in taken else want.list_kind,
            short_names=have.short_names if "ShortNames" in taken else want.short_names,
            categories=want.categories,
        )

    def conflicts(self, crd: CustomResourceDefinition) -> list[tuple[str, str]]:
        """Return each field that wants what another has, and the message; in Kubernetes' order."""
        want, have = crd.names, self.accepted[crd.name]
        own_resources, own_kinds = set(_resources(have)), set(_kinds(have))

        def in_use(names: Iterable[str], used: "Counter[str]", own: set[str]) -> str:
            found = [
                f'"{n}" is already in use' for n in dict.fromkeys(names) if used[n] > (n in own)
            ]
            return f"[{', '.join(found)}]" if len(found) > 1 else "".join(found)

        fields = [
            ("Plural", in_use((want.plural,), self._resources, own_resources)),
            ("Singular", in_use((want.singular,), self._resources, own_resources)),
            ("ShortNames", in_use(want.short_names, self._resources, own_resources)),
            ("Kind", in_use((want.kind,), self._kinds, own_kinds)),
            ("ListKind", in_use((want.list_kind,), self._kinds, own_kinds)),
        ]
        return [(field, message) for field, message in fields if message]


def _status(
    crd: CustomResourceDefinition, accepted: Names, conflicts: Sequence[tuple[str, str]]
) -> CrdStatus:
    stated = crd.stated
    conditions = _final_conditions(crd) or _conditions(crd, conflicts)
    if crd.terminating and all(condition.type != TERMINATING for condition in conditions):
        deletion = ("InstanceDeletionInProgress", "CustomResource deletion is in progress")
        conditions = (*conditions, Condition(TERMINATING, "True", *deletion, crd.created))
    stored = stated.stored_versions if stated else ()
    return CrdStatus(
        accepted,
        conditions,
        stored or tuple(version.name for version in crd.versions if version.storage),
    )


def _conditions(
    crd: CustomResourceDefinition, conflicts: Sequence[tuple[str, str]]
) -> tuple[Condition, ...]:
    """Return the conditions by what is accepted; Established never becomes false again.

    Source: k8s.io/apiextensions-apiserver pkg/controller/status/naming_controller.go and
    pkg/controller/establish/establishing_controller.go.
    """
    since = crd.created
    if not conflicts:
        accepted = Condition(NAMES_ACCEPTED, "True", "NoConflicts", "no conflicts found", since)
        initial = ("InitialNamesAccepted", "the initial names have been accepted")
        established = Condition(ESTABLISHED, "True", *initial, since)
    else:
        field, message = conflicts[-1]  # as there, where each overwrites the one before
        accepted = Condition(NAMES_ACCEPTED, "False", f"{field}Conflict", message, since)
        denied = ("NotAccepted", "not all names are accepted")
        established = Condition(ESTABLISHED, "False", *denied, since)
    approval = crd_approval.condition(crd.group, crd.approval, since)
    return (*approval, accepted, _stated_established(crd) or established)


def status_value(status: CrdStatus) -> dict[str, JSONValue]:
    """Return a status as Kubernetes writes it in JSON, in the order of the Go structs."""
    return {
        "conditions": [_condition_value(condition) for condition in status.conditions],
        "acceptedNames": _names_value(status.accepted),
        "storedVersions": status.stored_versions,
    }


def _condition_value(condition: Condition) -> dict[str, JSONValue]:
    value: dict[str, JSONValue] = {
        "type": condition.type,
        "status": condition.status,
        "lastTransitionTime": condition.since or None,
    }
    if condition.reason:
        value["reason"] = condition.reason
    if condition.message:
        value["message"] = condition.message
    return value


def _names_value(names: Names) -> dict[str, JSONValue]:
    """Return names; plural and kind are never omitted."""
    value: dict[str, JSONValue] = {
        "plural": names.plural,
        "singular": names.singular,
        "shortNames": names.short_names,
        "kind": names.kind,
        "listKind": names.list_kind,
        "categories": names.categories,
    }
    return {name: one for name, one in value.items() if one or name in ("plural", "kind")}
