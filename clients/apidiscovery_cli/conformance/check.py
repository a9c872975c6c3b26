"""What a check is, and what comes of it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from apidiscovery_cli.conformance.exchange import Asked, Reply

if TYPE_CHECKING:  # it needs what is here
    from apidiscovery_cli.conformance.subject import Subject


T = TypeVar("T")


class Profile(StrEnum):
    """What kind of API server is asked."""

    KUBE_APISERVER = "kube-apiserver"
    EXTENSION = "extension"


class Outcome(StrEnum):
    """How a check went."""

    PASS = "pass"  # noqa: S105 - not a password
    FAIL = "fail"
    SKIP = "skip"


class FailedError(Exception):
    """What was answered is not as it must be.

    Attributes:
        seen: What is wrong with it.
        wanted: What it must be.
        asked: The request, None when it is about several.
    """

    def __init__(self, seen: str, wanted: str, asked: Asked | None = None) -> None:
        super().__init__(f"{seen}; want {wanted}")
        self.seen = seen
        self.wanted = wanted
        self.asked = asked


class SkippedError(Exception):
    """A check does not apply to the server; the text says why."""


def expect(condition: object, reply: Reply, wanted: str, seen: str = "") -> None:
    """See that something is so.

    Args:
        condition: What has to be true.
        reply: What it is about.
        wanted: What it must be.
        seen: What it is instead; empty for the whole answer in short.

    Raises:
        FailedError: It is not.
    """
    if not condition:
        raise FailedError(seen or str(reply), wanted, reply.asked)


def some(found: Iterable[T], what: str) -> list[T]:
    """Return what was found: a check that has looked at nothing must not pass.

    Raises:
        SkippedError: Nothing was found.
    """
    if listed := list(found):
        return listed
    raise SkippedError(f"the server has no {what}")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that an API server has to do.

    Attributes:
        number: By which it is called; it stays the same.
        title: What the server does that passes.
        section: What part of the protocol it belongs to.
        why: Which clients depend on it, and how.
        advice: What to do about it.
        run: Returns when the server passes.
    """

    number: int
    title: str
    section: str
    why: str
    advice: str
    run: "Callable[[Subject], None]"


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a check.

    Attributes:
        seen: What was answered, or why the check was skipped; empty if it passed.
        wanted: What should have been answered.
        asked: The request that shows it, where it is one.
        requests: How many requests this check made that no other had made before.
        took_s: How long it took.
    """

    check: Check
    outcome: Outcome
    seen: str = ""
    wanted: str = ""
    asked: Asked | None = None
    requests: int = 0
    took_s: float = 0.0
