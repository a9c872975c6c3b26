"""What to ask DiscoveryService for, and what to hold by its answers, without sending anything."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from apidiscovery_client._interfaces import FetchedSnapshot
from apidiscovery_client.transports import _grpc_answers as answers
from apidiscovery_client.transports._grpc_answers import (
    Answer,
    Difference,
    MisfitError,
    Same,
    Sources,
)
from apidiscovery_client.transports._grpc_proof import contradicts


@dataclass(frozen=True, slots=True)
class Get:
    """Wants an `Answer` of GetDiscovery.

    Attributes:
        etag: Of all that is known; empty for nothing.
        known: The hashes of the groups that are known; None for the whole document.
    """

    etag: str = ""
    known: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class ListSources:
    """Wants the sources, none where they cannot be had."""


Ask: TypeAlias = Get | ListSources
Reply: TypeAlias = Answer | Sources
Flow: TypeAlias = Generator[Ask, Reply, FetchedSnapshot]


def fetching(fetched: FetchedSnapshot | None, server: str) -> Flow:
    """Ask for what has changed since `fetched`, or for all if that makes no sense.

    Raises:
        MisfitError: The whole document makes no sense either.
    """
    known = answers.known_hashes(fetched)
    if fetched is not None and known is not None:
        answer = yield Get(fetched.etags.get("", ""), known)
        try:
            check(answer, fetched)
            return (yield from taking(answer, server, base=fetched, before=fetched))
        except MisfitError:
            pass  # a replica with other hashes, or a mistake: the whole document is the way out
    answer = yield Get()
    return (yield from taking(answer, server, base=None, before=fetched))


def check(answer: Reply, base: FetchedSnapshot) -> None:
    """See that a difference to what came from elsewhere leads to what the server serves.

    Raises:
        MisfitError: It does not.
    """
    if not isinstance(answer, Difference):
        return
    groups = answers.listed(answer, base.snapshot.groups)
    if contradicts(answer.etag, groups, base):
        raise MisfitError("its difference leads to other groups than its ETag stands for")


def taking(
    answer: Reply, server: str, *, base: FetchedSnapshot | None, before: FetchedSnapshot | None
) -> Flow:
    """Take in an answer; ask for the sources when it has something new that is not current.

    Args:
        answer: Of GetDiscovery or of WatchDiscovery.
        server: What the snapshot is of.
        base: What the answer is the difference to.
        before: What was held before, where that is more than `base`.

    Raises:
        MisfitError: The answer makes no sense.
    """
    if isinstance(answer, Same):
        return answers.same(base, answer)
    if isinstance(answer, Sources):
        raise TypeError("sources were sent where an answer was asked for")
    known = base.snapshot.groups if base else ()
    groups = answers.listed(answer, known)
    hashes = answers.hashes(answer, groups, base)
    if answers.troubled(groups, known):
        told = yield ListSources()
        groups = answers.explained(groups, known, told if isinstance(told, Sources) else Sources())
    groups = answers.settled(groups, before.snapshot.groups if before else None)
    return answers.as_held(server, answer, groups, hashes)
