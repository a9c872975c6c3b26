"""The base classes of the service's errors, by who must act.

Details are attributes as well as text, so that answers and log lines can have them as fields.
"""

from dataclasses import dataclass


def text_of(error: BaseException) -> str:
    """Return the text of an error; its class if it is empty, as in asyncio."""
    return str(error) or type(error).__name__


class DiscoveryError(Exception):
    """Base class of all errors of this package; never raised itself.

    Attributes:
        public_text: The text for callers, where that of the error is for operators and may name
            files or addresses; empty if callers may read the error itself.
    """

    public_text: str = ""

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle an error by its fields, since the arguments of `__init__` are not stored."""
        return _restored, (type(self), self.args, self.__dict__)


def told_to_callers(error: DiscoveryError) -> str:
    """Return the text of an error for callers; the log has the details."""
    return error.public_text or str(error)


def _restored(
    kind: type[DiscoveryError], args: tuple[object, ...], fields: dict[str, object]
) -> DiscoveryError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class InvalidContribution(DiscoveryError):
    """A source offers something that cannot be discovery; its author must act."""


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One invalid field.

    Attributes:
        field: Path of the field, such as `items[0].versions[1].resources[2].scope`; empty for the
            document itself.
        message: What was seen and what was wanted.
    """

    field: str
    message: str


class InvalidDocument(InvalidContribution):
    """The documents in a file are invalid.

    Attributes:
        file: The path as the user gave it.
        document: Number of the document in the file, from 1; 0 if the file cannot be read.
        line: Line of the file, from 1; 0 if it is unknown.
        field: Path of the field; empty for the document itself.
        others: Further errors of the file.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str,
        document: int = 0,
        line: int = 0,
        field: str = "",
    ) -> None:
        super().__init__(message)
        self.file = file
        self.document = document
        self.line = line
        self.field = field
        self.others: tuple[InvalidDocument, ...] = ()

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
    """Fields of a request are invalid.

    Attributes:
        violations: At least one.
    """

    def __init__(self, *violations: FieldViolation) -> None:
        super().__init__("; ".join(f"{v.field}: {v.message}" for v in violations))
        self.violations = violations


class InvalidConfiguration(DiscoveryError):
    """A flag, variable or key of the configuration is wrong; the operator must act."""
