"""Options of commands as data, from which click makes its own.

Commands that are typed often have to do without click where they can: importing it takes as long
as asking a server.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal


class BadUsage(Exception):
    """A command line says what cannot be; the text is for the user."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a command.

    Attributes:
        names: As they are typed, such as `--output` and `-o`, the first of them with two dashes.
        variable: Of the environment, for what the command line does not say.
        parameter: What its value is called in `Values`, by default by its first name.
        reads: What makes a value of a text, and raises `ValueError` with what is wrong with it;
            None for a flag, which has no value to read.
        choices: All the values that it has, if they are few.
        path: What must be there, if the value names a file or folder.
        bare: The value where the option is given without any; None where it must have one.
        default: The value where the option is not given.
    """

    names: tuple[str, ...]
    help: str | None = None
    variable: str | None = None
    parameter: str | None = None
    metavar: str | None = None
    reads: Callable[[str], object] | None = str
    choices: Sequence[str] = ()
    path: Literal["file", "folder"] | None = None
    bare: object = None
    default: object = None
    is_repeatable: bool = False
    is_hidden: bool = False

    @property
    def key(self) -> str:
        """What its value is called in `Values`."""
        return self.parameter or self.names[0].removeprefix("--").replace("-", "_")

    @property
    def is_flag(self) -> bool:
        """Whether it takes no value."""
        return self.reads is None

    @property
    def absent(self) -> object:
        """The value where the option is not given."""
        if self.is_flag:
            return False
        return () if self.is_repeatable else self.default


@dataclass(frozen=True, slots=True)
class Values:
    """What a command line says, and the environment where it is silent.

    Attributes:
        given: The value of each option by its key, a tuple for one that can be repeated.
        of_environment: The keys of those whose value is that of a variable.
    """

    given: Mapping[str, object]
    of_environment: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PlainCommand:
    """A command without arguments, which needs click only for its help and to refuse bad usage.

    Attributes:
        run: Does it; raises `BadUsage` for options that contradict each other.
    """

    name: str
    help: str
    options: Sequence[Option]
    run: Callable[[Values], None]
