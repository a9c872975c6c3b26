"""Foreign JSON of which a value of another type counts as none."""

from apidiscovery_formats.json_values import as_list, as_object


def test_only_values_of_the_type_count() -> None:
    fields, items = {"a": 1}, [1]

    assert as_object(fields) is fields
    assert as_list(items) is items
    assert [as_object(other) for other in (None, "text", items)] == [{}, {}, {}]
    assert [as_list(other) for other in (None, "text", fields)] == [[], [], []]


def test_nothing_is_shared_between_callers() -> None:
    as_object(None)["a"] = 1
    as_list(None).append(1)

    assert as_object(None) == {}
    assert as_list(None) == []
