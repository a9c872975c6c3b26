"""The matrix of a fleet."""

from apidiscovery_formats import matrix
from apidiscovery_formats.matrix import (
    Agreement,
    Cell,
    Cluster,
    Column,
    Freshness,
    Matrix,
    Selection,
)
from hypothesis import given
from hypothesis import strategies as st

EAST, NORTH = Column("east"), Column("north")
SILENT = Column("west", Freshness.UNKNOWN, reason="connection refused")
V1 = Cell(("v1",), "v1", "CronTab", "Namespaced", verbs=("get", "list"))
BOTH = Cell(("v2", "v1"), "v2", "CronTab", "Namespaced", verbs=("get", "list"))
KEY = ("stable.example.com", "crontabs")


def agreement(*clusters: tuple[Column, Cell | None]) -> Agreement:
    made = matrix.make([Cluster(column, {KEY: cell} if cell else {}) for column, cell in clusters])
    (row,) = made.rows
    return row.agreement


def test_clusters_that_serve_a_resource_alike_agree() -> None:
    assert agreement((EAST, V1), (NORTH, V1)) is Agreement.SAME


def test_order_of_verbs_is_no_difference() -> None:
    other = Cell(("v1",), "v1", "CronTab", "Namespaced", verbs=("list", "get"))

    assert agreement((EAST, V1), (NORTH, other)) is Agreement.SAME


def test_other_versions_and_absence_are_differences() -> None:
    assert agreement((EAST, V1), (NORTH, BOTH)) is Agreement.DIFFERENT
    assert agreement((EAST, V1), (NORTH, None)) is Agreement.DIFFERENT


def test_a_cluster_that_never_answered_neither_agrees_nor_differs() -> None:
    assert agreement((EAST, V1), (NORTH, V1), (SILENT, None)) is Agreement.UNSURE
    assert agreement((EAST, V1), (NORTH, None), (SILENT, None)) is Agreement.DIFFERENT


def test_a_version_that_never_answered_makes_its_cell_unsure() -> None:
    north = Cluster(NORTH, {}, unknown={KEY[0]: ("v1",)})

    (row,) = matrix.make([Cluster(EAST, {KEY: V1}), north]).rows

    assert row.agreement is Agreement.UNSURE
    assert row.cells[1] == Cell(unknown=("v1",))


def test_a_stale_version_counts_as_it_last_was() -> None:
    stale = Cell(("v1",), "v1", "CronTab", "Namespaced", verbs=("get", "list"), stale=("v1",))

    assert agreement((EAST, V1), (NORTH, stale)) is Agreement.SAME


def test_the_repr_of_a_matrix_is_short() -> None:
    made = matrix.make([Cluster(EAST, {KEY: V1, ("", "pods"): V1}), Cluster(NORTH, {KEY: V1})])
    assert repr(made) == "<Matrix of 2 clusters: 2 rows (1 Same, 1 Different)>"
    assert repr(made.rows) == (
        "(<Row pods: Different in 2 clusters>,"
        " <Row crontabs.stable.example.com: Same in 2 clusters>)"
    )
    assert repr(Matrix((), ())) == "<Matrix of 0 clusters: 0 rows>"


def test_json_has_each_different_cell_once() -> None:
    third = Column("south")
    served = ((EAST, V1), (NORTH, BOTH), (third, V1))
    made = matrix.make([*(Cluster(c, {KEY: cell}) for c, cell in served), Cluster(SILENT, {})])

    (row,) = matrix.to_json(made)["rows"]

    assert [(cell["clusters"], cell["versions"]) for cell in row["cells"]] == [
        (["east", "south"], ["v1"]),
        (["north"], ["v2", "v1"]),
    ]
    assert row["unknown"] == ["west"]
    assert "absent" not in row


def test_rows_are_selected_by_group_and_by_any_name() -> None:
    pods = Cell(("v1",), "v1", "Pod", short_names=("po",))
    east = Cluster(EAST, {KEY: V1, ("", "pods"): pods})
    made = matrix.make([east, Cluster(NORTH, {("", "pods"): pods})])

    def names(selected: Matrix) -> list[str]:
        return [row.resource for row in selected.rows]

    assert names(made.selected(groups=[""])) == ["pods"]
    assert names(made.selected(kinds=["crontab"])) == ["crontabs"]
    assert names(made.selected(kinds=["Pods"])) == ["pods"]
    assert names(made.selected(kinds=["PO"])) == ["pods"]
    assert names(made.selected(different=True)) == ["crontabs"]


def test_equal_selections_are_equal_in_whatever_order_and_case_they_are_given() -> None:
    selection = Selection.of(["b", "a", "b"], ["Pods", "po"])

    assert selection == Selection.of(["a", "b"], ["PO", "pods"])
    assert Selection.of() == Selection()


def test_a_selection_of_nothing_admits_every_row() -> None:
    (row,) = matrix.make([Cluster(EAST, {KEY: V1})]).rows

    assert Selection().admits(row)
    assert not Selection(groups=frozenset({""})).admits(row)


names = st.sampled_from(["east", "north", "south"])
cells = st.builds(Cell, versions=st.sampled_from([("v1",), ("v2", "v1")]))
keys = st.tuples(st.sampled_from(["", "apps"]), st.sampled_from(["pods", "nodes"]))
columns = st.builds(Column, name=names, freshness=st.sampled_from(Freshness))
clusters = st.builds(
    Cluster,
    columns,
    st.dictionaries(keys, cells, max_size=3),
    st.sampled_from([{}, {"apps": ("v3",)}]),
)
fleets = st.lists(clusters, max_size=3, unique_by=lambda each: each.column.name).map(matrix.make)


@given(fleets, fleets)
def test_a_delta_applied_to_the_old_matrix_gives_the_new_one(before: Matrix, after: Matrix) -> None:
    assert matrix.applied(before, matrix.delta(before, after)) == after


@given(fleets)
def test_the_hash_is_that_of_the_content(made: Matrix) -> None:
    value = matrix.to_json(made)

    assert value.pop("hash") == matrix.hash_of(value)
