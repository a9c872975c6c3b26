"""Changes of a schema, with a verdict for each of four people, and their JSON form."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from apidiscovery_client._errors import DiscoveryError


class InvalidSchema(DiscoveryError):
    """A schema cannot be compared: a `$ref` leads nowhere, or it is too deep or too large.

    Attributes:
        path: Of the field, such as `spec.template`; empty for the whole.
        problem: What was seen and what was wanted.
    """

    def __init__(self, problem: str, *, path: str = "") -> None:
        super().__init__(f"schema of {path}: {problem}" if path else f"schema: {problem}")
        self.path = path
        self.problem = problem


class Outcome(StrEnum):
    """What becomes of a manifest, or of a stored object that is updated."""

    FINE = "fine"
    DEFAULTED = "defaulted"
    PRUNED = "pruned"
    UNKNOWN = "unknown"
    REJECTED = "rejected"


class Reading(StrEnum):
    """What code for the old schema meets in new objects."""

    FINE = "fine"
    UNKNOWN = "unknown"
    DIFFERENT = "different"
    ABSENT = "absent"


class Applying(StrEnum):
    """What becomes of the field ownership of server-side apply."""

    FINE = "fine"
    UNKNOWN = "unknown"
    OWNERSHIP = "ownership"


_SEVERITY = {outcome: at for at, outcome in enumerate(Outcome)}


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the worst: rejected, unknown (it may be rejected), pruned, defaulted, fine."""
    return max(outcomes, key=_SEVERITY.__getitem__, default=Outcome.FINE)


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The worst case over all objects that were valid before.

    Attributes:
        writer: Of a manifest that is created.
        reader: Of code that was written for the old schema.
        stored: Of an existing object, when only its metadata is updated.
        applier: Of server-side apply.
        reason: Why a verdict is unknown, else empty or a note.
    """

    writer: Outcome = Outcome.FINE
    reader: Reading = Reading.FINE
    stored: Outcome = Outcome.FINE
    applier: Applying = Applying.FINE
    reason: str = ""

    @property
    def has_unknown(self) -> bool:
        """Whether something could not be decided."""
        return "unknown" in (self.writer, self.reader, self.stored, self.applier)

    @property
    def breaks(self) -> bool:
        """Whether a verdict is neither fine nor unknown."""
        told = (self.writer, self.reader, self.stored, self.applier)
        return any(verdict not in ("fine", "unknown") for verdict in told)


@dataclass(frozen=True, slots=True)
class Change:
    """A difference of two schemas or definitions.

    Attributes:
        path: Of the field: `spec.list[].name`; values of a map are `{}`; empty for the object.
        change: The rule's name; all are in docs/schema-diff.md.
        before: The old value of the keyword, as JSON; None where there was none.
        after: The new one.
        group: Of the kind, empty where schemas alone are compared; so are the next two.
    """

    path: str
    change: str
    before: object
    after: object
    verdicts: Verdicts
    group: str = ""
    version: str = ""
    kind: str = ""

    def as_json(self) -> dict[str, object]:
        """Return the change in its fixed form; `reason` is there only beside an `unknown`."""
        told: dict[str, object] = {
            "group": self.group,
            "version": self.version,
            "kind": self.kind,
            "path": self.path,
            "change": self.change,
            "before": self.before,
            "after": self.after,
            "writer": self.verdicts.writer.value,
            "reader": self.verdicts.reader.value,
            "stored": self.verdicts.stored.value,
            "applier": self.verdicts.applier.value,
        }
        if self.verdicts.has_unknown:
            told["reason"] = self.verdicts.reason
        return told


def changes_json(changes: Iterable[Change]) -> dict[str, object]:
    """Return changes in the form of `-o json`: an object with a list `changes`."""
    return {"changes": [change.as_json() for change in changes]}
