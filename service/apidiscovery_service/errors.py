"""The errors of the service: one small tree, told apart by who must act.

What was seen, what was wanted and where are attributes as well as text, so that a transport can
answer with fields and a log line with key and value.
"""

from dataclasses import dataclass


class DiscoveryError(Exception):
    """What every error of this package is; never raised itself."""


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
    """A document in a file is not what it says it is.

    Attributes:
        file: The path as the user gave it.
        document: Which document of the file, counted from 1; 0 when the file cannot be read.
        line: Line of the file, counted from 1; 0 when there is none to point at.
        field: Path of the field; empty for the document itself.
    """

    def __init__(self, message: str, *, file: str, document: int, line: int, field: str) -> None:
        super().__init__(message)
        self.file = file
        self.document = document
        self.line = line
        self.field = field

    def __str__(self) -> str:
        place = [f"{self.file}:{self.line}" if self.line else self.file]
        if self.document:
            place.append(f"document {self.document}")
        if self.field:
            place.append(self.field)
        return f"{', '.join(place)}: {self.args[0]}"


class InvalidConfiguration(DiscoveryError):
    """A flag, variable or key of the configuration is wrong; the operator must act."""


class NotAcceptable(DiscoveryError):
    """Nothing that is served is in a form that the caller accepts.

    Attributes:
        offered: The media types that are served.
    """

    def __init__(self, offered: tuple[str, ...]) -> None:
        super().__init__(f"only the following media types are accepted: {', '.join(offered)}")
        self.offered = offered
