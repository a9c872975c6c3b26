"""The errors of the service: one small tree, told apart by who must act.

What was seen, what was wanted and where are attributes as well as text, so that a transport can
answer with fields and a log line with key and value.
"""

from collections.abc import Iterable
from dataclasses import dataclass


def text_of(error: BaseException) -> str:
    """Return what an error says; its kind when it says nothing, as those of asyncio do."""
    return str(error) or type(error).__name__


class DiscoveryError(Exception):
    """What every error of this package is; never raised itself."""

    def __reduce__(self) -> tuple[object, ...]:
        """Return how an error is pickled: by its fields, for what `__init__` takes is not kept."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(
    kind: type[DiscoveryError], args: tuple[object, ...], fields: dict[str, object]
) -> DiscoveryError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class InvalidContribution(DiscoveryError):
    """A source offered something that cannot be discovery; whoever wrote it must act."""


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One field that is not as it must be.

    Attributes:
        field: Path of the field, such as `items[0].versions[1].resources[2].scope`; empty for the
            document itself.
        message: What was seen and what was wanted.
    """

    field: str
    message: str


class InvalidDocument(InvalidContribution):
    """Documents in a file are not what they say they are: the first thing that is wrong.

    Attributes:
        file: The path as the user gave it.
        document: Which document of the file, counted from 1; 0 when the file cannot be read.
        line: Line of the file, counted from 1; 0 when there is none to point at.
        field: Path of the field; empty for the document itself.
        others: What else is wrong in the file, each as an error of its own.
    """

    def __init__(  # noqa: PLR0913 - each is one part of the place
        self,
        message: str,
        *,
        file: str,
        document: int = 0,
        line: int = 0,
        field: str = "",
        others: "Iterable[InvalidDocument]" = (),
    ) -> None:
        super().__init__(message)
        self.file = file
        self.document = document
        self.line = line
        self.field = field
        self.others = tuple(others)

    def __str__(self) -> str:
        return "\n".join([self._text(), *map(str, self.others)])

    def _text(self) -> str:
        place = [f"{self.file}:{self.line}" if self.line else self.file]
        if self.document:
            place.append(f"document {self.document}")
        if self.field:
            place.append(self.field)
        return f"{', '.join(place)}: {self.args[0]}"


class InvalidFields(InvalidContribution):
    """Fields of something that was sent are not as they must be.

    Attributes:
        violations: At least one.
    """

    def __init__(self, *violations: FieldViolation) -> None:
        super().__init__("; ".join(f"{v.field}: {v.message}" for v in violations))
        self.violations = violations


class InvalidConfiguration(DiscoveryError):
    """A flag, variable or key of the configuration is wrong; the operator must act."""
