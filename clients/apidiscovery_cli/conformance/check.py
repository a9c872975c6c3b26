"""Checks and their results; assertions about answers and about the JSON documents in them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from apidiscovery_cli.conformance.exchange import Asked, Reply

if TYPE_CHECKING:  # it needs what is here
    from apidiscovery_cli.conformance.subject import Subject


T = TypeVar("T")
Run: TypeAlias = "Callable[[Subject], None]"


class Profile(StrEnum):
    """Kinds of API servers."""

    KUBE_APISERVER = "kube-apiserver"
    EXTENSION = "extension"


class CheckOutcome(StrEnum):
    """Outcomes of a check."""

    PASS = "pass"  # noqa: S105 - not a password
    FAIL = "fail"
    SKIP = "skip"


class FailedError(Exception):
    """An answer is wrong.

    Attributes:
        seen: What is wrong.
        wanted: What would be right.
        asked: The request, None for several.
    """

    def __init__(self, seen: str, wanted: str, asked: Asked | None = None) -> None:
        super().__init__(f"{seen}; want {wanted}")
        self.seen = seen
        self.wanted = wanted
        self.asked = asked


class SkippedError(Exception):
    """A check does not apply to the server; the message says why."""


def expect(condition: object, reply: Reply, wanted: str, seen: str = "") -> None:
    """Raise `FailedError` unless a condition is true.

    Args:
        condition: Whether the answer is right.
        reply: The answer.
        wanted: What would be right.
        seen: What is wrong; by default a summary of the answer.
    """
    if not condition:
        raise FailedError(seen or str(reply), wanted, reply.asked)


def some(found: Iterable[T], what: str) -> list[T]:
    """Return what was found as a list.

    Raises:
        SkippedError: Nothing was found: a check that has inspected nothing must not pass.
    """
    if listed := list(found):
        return listed
    raise SkippedError(f"the server has no {what}")


@dataclass(frozen=True, slots=True)
class Check:
    """One requirement on an API server.

    Attributes:
        section: The part of the protocol.
        number: Its name for users, which never changes.
        title: What a server does that passes.
        why: Which clients depend on it, and how.
        advice: How to fix a server that fails.
        run: Raises `FailedError` or `SkippedError`, or returns.
    """

    section: str
    number: int
    title: str
    why: str
    advice: str
    run: Run


class Section:
    """A part of the protocol.

    Attributes:
        checks: Its checks, in the order in which they are defined.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self.checks: list[Check] = []

    def check(self, number: int, title: str, *, why: str, advice: str) -> Callable[[Run], Run]:
        """Return a decorator that makes a function a check; parameters are those of `Check`."""

        def add(run: Run) -> Run:
            self.checks.append(Check(self._title, number, title, why, advice, run))
            return run

        return add


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a check.

    Attributes:
        seen: What is wrong, or why the check was skipped; empty if it passed.
        wanted: What would be right.
        asked: The request that shows it, None for several.
        requests: How many requests this check made; answers of former checks are reused.
        took_s: Seconds.
    """

    check: Check
    outcome: CheckOutcome
    seen: str = ""
    wanted: str = ""
    asked: Asked | None = None
    requests: int = 0
    took_s: float = 0.0


_SHOWN = 120


@dataclass(frozen=True, slots=True)
class Node:
    """A value in the body of an answer.

    Attributes:
        value: None also for a member that is missing.
        path: Such as `items[0].versions[1]`, empty for the document.
    """

    reply: Reply
    value: object
    path: str = ""

    def fail(self, wanted: str) -> FailedError:
        """Return the error for a wrong value."""
        text = repr(self.value)
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        seen = f"{self.path or 'the document'} is {shown if self.value is not None else 'missing'}"
        return FailedError(seen, wanted, self.reply.asked)

    def __getitem__(self, name: str) -> "Node":
        """Return a member of an object."""
        members = self._members
        path = f"{self.path}.{name}" if self.path else name
        return Node(self.reply, members.get(name), path)

    @property
    def names(self) -> list[str]:
        """The names of the members of an object."""
        return list(self._members)

    @property
    def _members(self) -> dict[str, object]:
        value = self.value
        if not isinstance(value, dict):
            raise self.fail("a JSON object")
        return cast("dict[str, object]", value)

    @property
    def items(self) -> "list[Node]":
        """The items of a list."""
        value = self.value
        if not isinstance(value, list):
            raise self.fail("a JSON list")
        values = cast("list[object]", value)
        return [Node(self.reply, item, f"{self.path}[{i}]") for i, item in enumerate(values)]

    @property
    def items_if_any(self) -> "list[Node]":
        """The items of a list, none where there is no list."""
        return [] if self.value is None else self.items

    @property
    def text(self) -> str:
        """Text that is not empty."""
        if not isinstance(self.value, str) or not self.value:
            raise self.fail("text that is not empty")
        return self.value

    def one_of(self, *wanted: object) -> None:
        """Raise `FailedError` unless it is one of some values."""
        if self.value not in wanted:
            raise self.fail(" or ".join(map(repr, wanted)))


def document(reply: Reply) -> Node:
    """Return the JSON document of an answer.

    Raises:
        FailedError: It is not JSON.
    """
    try:
        return Node(reply, reply.json())
    except ValueError as error:
        raise FailedError(f"{reply}: {error}", "a JSON document", reply.asked) from None
