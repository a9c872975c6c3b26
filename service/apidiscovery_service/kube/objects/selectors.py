"""What a list, a watch or a deletion of many is narrowed to."""

from dataclasses import dataclass

from apidiscovery_service.kube.objects import field_selectors, label_selectors, reading
from apidiscovery_service.kube.objects.field_selectors import NAME, NAMESPACE, FieldSelector
from apidiscovery_service.kube.objects.kinds import Object
from apidiscovery_service.kube.objects.label_selectors import LabelSelector

_ALL_LABELS = LabelSelector()
_ALL_FIELDS = FieldSelector()


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects are meant: those whose labels and fields are as required."""

    labels: LabelSelector = _ALL_LABELS
    fields: FieldSelector = _ALL_FIELDS

    @property
    def is_everything(self) -> bool:
        """Whether no object is left out."""
        return not self.labels.requirements and not self.fields.requirements

    @property
    def name(self) -> str | None:
        """The only name that an object can have, if the fields require one."""
        return self.fields.exact(NAME)

    def matches(self, candidate: Object) -> bool:
        """Tell whether an object is meant."""
        metadata = reading.mapping(candidate, "metadata")
        names = {
            NAME: reading.text(metadata, "name"),
            NAMESPACE: reading.text(metadata, "namespace"),
        }
        return self.fields.matches(names) and self.labels.matches(
            reading.string_map(metadata, "labels")
        )


def parse(label_selector: str = "", field_selector: str = "") -> Selection:
    """Return the selection that the parameters `labelSelector` and `fieldSelector` make.

    Raises:
        ObjectError: One of them is malformed, or names a field that cannot be selected by; 400.
    """
    return Selection(label_selectors.parse(label_selector), field_selectors.parse(field_selector))
