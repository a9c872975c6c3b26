"""Sees whether a difference led to what the server serves, for the groups before may be others.

A server knows them by their hashes alone, which nobody but the server can make from groups. What
was kept in a file may have been changed there, under the same hashes; no difference would mend it.
"""

import re
from collections.abc import Iterable

from apidiscovery_client._discovery_paths import groups_by_path
from apidiscovery_client._interfaces import Document, FetchedSnapshot
from apidiscovery_client._writing import write_aggregated
from apidiscovery_client.cache.proofs import SCOPE, scope_etag
from apidiscovery_client.model import Group

_ETAG = re.compile(r"[0-9A-F]{128}")


def contradicts(etag: str, groups: Iterable[Group], base: FetchedSnapshot) -> bool:
    """Return whether the ETag is certainly that of other groups.

    That is not certain where the ETag of `base` does not follow from its groups either: then the
    server has a rule of its own, or hashes another version of the documents.

    Args:
        etag: What the server calls the groups.
        groups: What its difference led to.
        base: What it was the difference to.
    """
    if not _ETAG.fullmatch(etag) or _etag_of(groups) == etag:
        return False
    return _etag_of(base.snapshot.groups) == base.etags.get(SCOPE)


def _etag_of(groups: Iterable[Group]) -> str:
    """Return the ETag; empty where the groups have something that no document can say."""
    try:
        documents: dict[str, Document] = {
            path: Document("", write_aggregated(part, as_stated=True))
            for path, part in groups_by_path(tuple(groups)).items()
        }
    except (TypeError, ValueError, RecursionError):
        return ""
    return scope_etag(documents)
