"""What must hold of all that is served of clusters, whatever happens to them or to replicas.

Each shows what it has really said. What was known once is never unknown, missing or empty: neither
a document, nor a column of the fleet, nor its cells.
"""

import math
from collections.abc import Iterator
from typing import TypeAlias

from tests.robustness.history import (
    ANSWERS,
    ClusterRead,
    ClusterSaid,
    ColumnRead,
    History,
    Restore,
)

# When it was seen, and what.
Wrong: TypeAlias = tuple[float, str]


def wrong_of_clusters(history: History) -> Iterator[Wrong]:
    """Yield what is wrong with answers about clusters: in documents, then in columns."""
    yield from _documents(history)
    yield from _columns(history)


def _documents(history: History) -> Iterator[Wrong]:
    said = {(one.cluster, one.word): one.at for one in history.of(ClusterSaid)}
    restores = history.of(Restore)
    known = dict[tuple[str, str], float]()
    for read in sorted(history.of(ClusterRead), key=lambda one: one.ended):
        where = f"{read.replica}, /clusters/{read.cluster}{read.path}"
        of = (read.cluster, read.path)
        if read.status == "200":
            wrong = [
                word
                for word in read.words
                if word != read.cluster
                and not said.get((read.cluster, word), math.inf) < read.ended
            ]
            if wrong or len(read.words) != 1:
                text = f"{where} shows {read.words or 'nothing'}, which that cluster did not say"
                yield (read.ended, text)
            known.setdefault(of, read.ended)
        elif read.status not in ANSWERS | {"404"}:
            yield (read.ended, f"{where} answered {read.status}")
        elif read.status == "404" or read.problem == "unknown":
            since = known.get(of, math.inf)
            # A store that was put back may not have had it yet.
            was_lost = any(one.backup <= since <= one.restored for one in restores)
            if since < read.began and not was_lost:
                text = f"{where} answered {read.status} {read.problem}, known since {since} s"
                yield (read.ended, text)


def _columns(history: History) -> Iterator[Wrong]:
    said = {(one.cluster, one.word): one.at for one in history.of(ClusterSaid)}
    restores = history.of(Restore)
    known = dict[str, float]()
    for read in sorted(history.of(ColumnRead), key=lambda one: one.ended):
        if read.status != "200":
            wrong = f"answered {read.status}" if read.status not in ANSWERS else ""
        else:
            since = known.get(read.cluster, math.inf)
            was_lost = any(one.backup <= since <= one.restored for one in restores)
            wrong = _wrong_column(read, was_known=since < read.began and not was_lost)
            words = [
                w for w in read.words if not said.get((read.cluster, w), math.inf) < read.ended
            ]
            wrong = wrong or (f"tells {words}, which that cluster did not say" if words else "")
            if read.resources:
                known.setdefault(read.cluster, read.ended)
        if wrong:
            text = f"{read.replica}, {read.path}: the column of {read.cluster} {wrong}"
            yield (read.ended, text)


def _wrong_column(read: ColumnRead, *, was_known: bool) -> str:
    """Return what is wrong with a column as such; empty for nothing."""
    if not read.freshness:
        return "is missing"
    if was_known and (read.freshness == "Unknown" or not read.resources):
        return f"is {read.freshness} with {read.resources} resources, and was known"
    if read.freshness == "Stale" and not read.since:
        return "is Stale, and does not tell since when"
    if read.freshness == "Current" and read.since:
        return f"is Current, and not since {read.since}"
    return ""
