"""Views as they are configured."""

from dataclasses import dataclass, field

from apidiscovery_service.fleet.view_groups import ViewKind
from apidiscovery_service.kube.objects.selectors import LabelSelector


@dataclass(frozen=True, slots=True)
class ViewSpec:
    """A view as it is configured.

    Attributes:
        clusters: Which clusters it is made of.
    """

    name: str
    kind: ViewKind
    clusters: LabelSelector = field(default_factory=LabelSelector)


BUILT_IN_VIEWS = tuple(ViewSpec(str(kind), kind) for kind in ViewKind)
