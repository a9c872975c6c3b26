"""The requests to DiscoveryService and the snapshots by its answers, without I/O.

A server identifies groups by hashes, which only it can compute. Groups in a cache file may have
been changed under the same hashes, and no difference would correct that, so differences are
verified.
"""

import re
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from apidiscovery_client._interfaces import Document, FetchedSnapshot
from apidiscovery_client._writing import write_aggregated
from apidiscovery_client.cache.proofs import SCOPE, scope_etag
from apidiscovery_client.model import Group, groups_by_path
from apidiscovery_client.transports import _grpc_answers as answers
from apidiscovery_client.transports._grpc_answers import (
    Answer,
    Difference,
    InconsistentError,
    Same,
    Sources,
)

_ETAG = re.compile(r"[0-9A-F]{128}")


def contradicts(etag: str, groups: Iterable[Group], base: FetchedSnapshot) -> bool:
    """Return whether the ETag is certainly that of other groups.

    That is uncertain where the ETag of `base` does not follow from its groups either: then the
    server has its own rule, or hashes another version of the documents.

    Args:
        etag: The server's ETag of its groups.
        groups: The groups after its difference.
        base: The snapshot before it.
    """
    if not _ETAG.fullmatch(etag) or _etag_of(groups) == etag:
        return False
    return _etag_of(base.snapshot.groups) == base.etags.get(SCOPE)


def _etag_of(groups: Iterable[Group]) -> str:
    """Return the ETag; empty where no document can express the groups."""
    try:
        documents: dict[str, Document] = {
            path: Document("", write_aggregated(part, as_stated=True))
            for path, part in groups_by_path(tuple(groups)).items()
        }
    except (TypeError, ValueError, RecursionError):
        return ""
    return scope_etag(documents)


@dataclass(frozen=True, slots=True)
class Get:
    """Requests an `Answer` of GetDiscovery.

    Attributes:
        etag: Of all known groups; empty for none.
        known: The hashes of the groups that are known; None for the whole document.
    """

    etag: str = ""
    known: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class ListSources:
    """Requests the sources; the reply is empty where they are not available."""


Ask: TypeAlias = Get | ListSources
Reply: TypeAlias = Answer | Sources
Flow: TypeAlias = Generator[Ask, Reply, FetchedSnapshot]


def fetching(fetched: FetchedSnapshot | None, server: str) -> Flow:
    """Request the changes since `fetched`, or everything if they are inconsistent.

    Raises:
        InconsistentError: The whole document is inconsistent too.
    """
    known = answers.known_hashes(fetched)
    if fetched is not None and known is not None:
        answer = yield Get(fetched.etags.get("", ""), known)
        try:
            check(answer, fetched)
            return (yield from taking(answer, server, base=fetched, before=fetched))
        except InconsistentError:
            pass  # such as a replica with other hashes: request the whole document
    answer = yield Get()
    return (yield from taking(answer, server, base=None, before=fetched))


def check(answer: Reply, base: FetchedSnapshot) -> None:
    """Verify that a difference leads to the groups that the server serves.

    Raises:
        InconsistentError: It does not.
    """
    if not isinstance(answer, Difference):
        return
    groups = answers.listed(answer, base.snapshot.groups)
    if contradicts(answer.etag, groups, base):
        raise InconsistentError("its difference leads to other groups than its ETag stands for")


def taking(
    answer: Reply, server: str, *, base: FetchedSnapshot | None, before: FetchedSnapshot | None
) -> Flow:
    """Apply an answer; request the sources when changed groups are not current.

    Args:
        answer: Of GetDiscovery or of WatchDiscovery.
        server: The name of the server in the snapshot.
        base: The snapshot that a difference applies to.
        before: The last snapshot, for retained resources.

    Raises:
        InconsistentError: The answer is inconsistent.
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
    return answers.snapshot_of(server, answer, groups, hashes)
