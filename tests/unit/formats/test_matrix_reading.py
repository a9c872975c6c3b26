"""The JSON form of a matrix is read as it was written, and nothing else is."""

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from apidiscovery_formats.matrix import (
    Agreement,
    Cell,
    Cluster,
    Column,
    Freshness,
    make,
    of_clusters,
    to_json,
)
from apidiscovery_formats.matrix_reading import NotAMatrix, from_json
from crd_manifests import edited
from hypothesis import given
from hypothesis import strategies as st

words = st.sampled_from(["v1", "v2", "a", "ü\u2028"])
texts = st.lists(words, max_size=3, unique=True).map(tuple)
cells = st.builds(
    Cell,
    versions=st.lists(words, min_size=1, max_size=3, unique=True).map(tuple),
    preferred=words,
    kind=words | st.just(""),
    scope=words,
    short_names=texts,
    verbs=texts,
    subresources=texts,
    storage_version_hash=words | st.just(""),
    stale=texts,
)
columns = st.builds(
    Column,
    name=st.just(""),
    freshness=st.sampled_from(Freshness),
    since=words | st.just(""),
    reason=words | st.just(""),
    version=words | st.just(""),
    resources=st.integers(0, 9),
    hash=words | st.just(""),
    labels=st.dictionaries(words, words, max_size=2),
)
keys = st.tuples(st.sampled_from(["", "apps", "batch"]), st.sampled_from(["jobs", "pods"]))


@st.composite
def fleets(draw: st.DrawFn) -> list[Cluster]:
    """Draw clusters a, b, c."""
    found: list[Cluster] = []
    for name in "abc"[: draw(st.integers(0, 3))]:
        column = replace(draw(columns), name=name)
        unknown = draw(st.dictionaries(st.sampled_from(["", "apps"]), texts, max_size=1))
        found.append(Cluster(column, draw(st.dictionaries(keys, cells, max_size=4)), unknown))
    return found


@given(fleets())
def test_a_written_matrix_is_read_again(clusters: list[Cluster]) -> None:
    matrix = make(clusters)
    assert from_json(json.loads(json.dumps(to_json(matrix)))) == matrix


@given(fleets(), st.sets(st.sampled_from("abc")))
def test_a_selection_of_a_matrix_is_the_matrix_of_the_selected_clusters(
    clusters: list[Cluster], names: set[str]
) -> None:
    some = make([cluster for cluster in clusters if cluster.column.name in names])
    assert of_clusters(make(clusters), names) == some


CLUSTERS = [
    Cluster(Column("east"), {("apps", "jobs"): Cell(("v1",), "v1", "Job")}),
    Cluster(Column("west", Freshness.STALE, reason="refused"), {}),
]
MATRIX: dict[str, Any] = json.loads(json.dumps(to_json(make(CLUSTERS))))
changed = partial(edited, MATRIX)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "the document is list, want an object"),
        ({}, "clusters is missing, want an array"),
        (changed("rows", ...), "rows is missing, want an array"),
        (changed("rows", {}), "rows is dict, want an array"),
        (changed("clusters.0", 7), "clusters[0] is int, want an object"),
        (changed("clusters.0.name", ""), "clusters[0].name is missing or empty, want a name"),
        (changed("clusters.1.name", "east"), "clusters has a name twice, want each once"),
        (
            changed("clusters.1.freshness", "Fresh"),
            "clusters[1].freshness is 'Fresh', want one of Current, Stale, Unknown",
        ),
        (changed("clusters.0.labels", {"a": 1}), "clusters[0].labels.a is int, want a string"),
        (changed("clusters.0.resources", 1.5), "clusters[0].resources is float, want a whole"),
        (changed("rows.0.resource", ...), "rows[0].resource is missing or empty"),
        (
            changed("rows.0.agreement", "Maybe"),
            "rows[0].agreement is 'Maybe', want one of Same, Different, Unsure",
        ),
        (changed("rows.0.cells.0.versions", "v1"), "rows[0].cells[0].versions is str, want an"),
        (changed("rows.0.cells.0.versions", ["v1", 2]), "versions[1] is int, want a string"),
        (
            changed("rows.0.cells.0.clusters", ["south"]),
            "rows[0].cells[0].clusters has 'south', which is not among the clusters",
        ),
        (
            changed("rows.0.cells.0.clusters", ["east", "east"]),
            "rows[0].cells[0].clusters has 'east', which has a cell already",
        ),
    ],
)
def test_an_invalid_matrix_is_refused_with_the_field(value: object, said: str) -> None:
    with pytest.raises(NotAMatrix) as caught:
        from_json(value)
    assert said in str(caught.value)


def test_unknown_fields_are_ignored() -> None:
    (row,) = from_json(changed("rows.0.news", {"of": "tomorrow"})).rows
    assert row.agreement is Agreement.DIFFERENT
