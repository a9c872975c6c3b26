"""The priorities that kube-apiserver gives built-in groups and versions.

Source: kubernetes/kubernetes pkg/controlplane/apiserver/aggregator.go:
DefaultGenericAPIServicePriorities and cmd/kube-apiserver/app/aggregator.go:apiVersionPriorities.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from apidiscovery_service.core.model import Offer, Version


@dataclass(frozen=True, slots=True)
class _Row:
    group: int
    versions: dict[str, int]


# The priorities of a group-version without a row.
# Source: k8s.io/apiserver pkg/endpoints/discovery/aggregated/handler.go, addGroupVersionLocked.
DEFAULT_GROUP_PRIORITY = 1000
DEFAULT_VERSION_PRIORITY = 15

_TABLE = {
    "apiregistration.k8s.io": _Row(20001, {"v1": 0}),
    "": _Row(18000, {"v1": 1}),
    "apps": _Row(17800, {"v1": 15}),
    "events.k8s.io": _Row(17750, {"v1": 15, "v1beta1": 5}),
    "authentication.k8s.io": _Row(17700, {"v1": 15, "v1beta1": 9, "v1alpha1": 1}),
    "authorization.k8s.io": _Row(17600, {"v1": 15}),
    "autoscaling": _Row(17500, {"v2": 30, "v1": 15, "v2beta1": 9, "v2beta2": 1}),
    "batch": _Row(17400, {"v1": 15, "v1beta1": 9, "v2alpha1": 9}),
    "certificates.k8s.io": _Row(17300, {"v1": 15, "v1beta1": 9, "v1alpha1": 1}),
    "networking.k8s.io": _Row(17200, {"v1": 15, "v1beta1": 9}),
    "policy": _Row(17100, {"v1": 15, "v1beta1": 9}),
    "rbac.authorization.k8s.io": _Row(17000, {"v1": 15}),
    "storage.k8s.io": _Row(16800, {"v1": 15, "v1beta1": 9, "v1alpha1": 1}),
    "admissionregistration.k8s.io": _Row(16700, {"v1": 15, "v1beta1": 12, "v1alpha1": 9}),
    "apiextensions.k8s.io": _Row(16700, {"v1": 15}),
    "scheduling.k8s.io": _Row(16600, {"v1": 15}),
    "coordination.k8s.io": _Row(16500, {"v1": 15, "v1beta1": 13, "v1alpha2": 12}),
    "node.k8s.io": _Row(16300, {"v1": 15, "v1beta1": 9, "v1alpha1": 1}),
    "discovery.k8s.io": _Row(16200, {"v1": 15, "v1beta1": 12}),
    "resource.k8s.io": _Row(16200, {"v1beta2": 15, "v1beta1": 9, "v1alpha3": 1}),
    "flowcontrol.apiserver.k8s.io": _Row(
        16100, {"v1": 21, "v1beta3": 18, "v1beta2": 15, "v1beta1": 12, "v1alpha1": 9}
    ),
    "internal.apiserver.k8s.io": _Row(16000, {"v1alpha1": 9}),
    "storagemigration.k8s.io": _Row(15800, {"v1beta1": 9, "v1alpha1": 9}),
}

# The groups of all releases of Kubernetes; empty text is the core group.
BUILT_IN_GROUPS: Final = frozenset(_TABLE)

_NO_ROW = _Row(DEFAULT_GROUP_PRIORITY, {})


def ordered_offers(
    groups: list[tuple[str, tuple[Version, ...]]], first_rank: int = 0
) -> list[Offer]:
    """Return the offers of a list whose order is kept.

    Each group has the priority of the table, raised where needed to that of the greatest group
    after it; its rank is its index. So the list keeps its order whatever is merged with it, and
    a list in the order of the table, such as Kubernetes' own, has the priorities of the table.
    The same goes for the versions of each group.

    Args:
        groups: Names, empty for the core group, and versions, in order.
        first_rank: Rank of the first group; further lists of one source continue the ranks.
    """
    rows = [_TABLE.get(name, _NO_ROW) for name, _ in groups]
    group_priorities = _not_rising([row.group for row in rows])
    offers: list[Offer] = []
    for place, (name, versions) in enumerate(groups):
        version_priorities = _not_rising(
            [rows[place].versions.get(v.version, DEFAULT_VERSION_PRIORITY) for v in versions]
        )
        offers += [
            Offer(
                name,
                version,
                group_priorities[place],
                version_priorities[version_place],
                first_rank + place,
                version_place,
            )
            for version_place, version in enumerate(versions)
        ]
    return offers


def listed_as(offers: list[Offer], names: Iterable[str]) -> list[Offer]:
    """Return offers whose groups have another order in the unaggregated list.

    Their priorities there are made as in `ordered_offers`.

    Args:
        offers: All offers of a list.
        names: Names of groups in the order of the unaggregated list; missing ones come last.
    """
    offered = dict.fromkeys(offer.group for offer in offers)
    order = [*dict.fromkeys([*(name for name in names if name in offered), *offered])]
    priorities = _not_rising([_TABLE.get(name, _NO_ROW).group for name in order])
    places = {name: (priorities[rank], rank) for rank, name in enumerate(order)}
    return [replace(offer, list_place=places[offer.group]) for offer in offers]


def _not_rising(priorities: list[int]) -> list[int]:
    """Raise each number to the greatest of those after it."""
    raised: list[int] = []
    for priority in reversed(priorities):
        raised.append(max(priority, raised[-1]) if raised else priority)
    return raised[::-1]
