import re
from datetime import UTC, datetime

import pytest
from apidiscovery_service.serving.http.conditional import (
    Content,
    ModificationTimes,
    RangeNotSatisfiable,
    byte_range,
    http_date,
    precondition_status,
)

MODIFIED = int(datetime(2026, 5, 4, 10, 0, 0, tzinfo=UTC).timestamp())
CONTENT = Content('"A"', MODIFIED)
BEFORE, AT, AFTER = (http_date(MODIFIED + seconds) for seconds in (-1, 0, 1))


def test_a_date_is_in_greenwich_time() -> None:
    assert AT == "Mon, 04 May 2026 10:00:00 GMT"


@pytest.mark.parametrize(
    ("method", "none_match", "fields", "status"),
    [
        ("GET", "", {}, 200),
        ("GET", '"A"', {}, 304),
        ("GET", 'W/"A"', {}, 304),
        ("GET", '"B", "A"', {}, 304),
        ("GET", "*", {}, 304),
        ("GET", '"B"', {}, 200),
        ("HEAD", '"A"', {}, 304),
        ("POST", '"A"', {}, 412),
        ("POST", '"B"', {}, 200),
        ("GET", "", {"if-modified-since": AT}, 304),
        ("GET", "", {"if-modified-since": AFTER}, 304),
        ("GET", "", {"if-modified-since": BEFORE}, 200),
        ("GET", "", {"if-modified-since": "yesterday"}, 200),
        ("POST", "", {"if-modified-since": AT}, 200),
        # An entity tag says more than a date.
        ("GET", '"B"', {"if-modified-since": AFTER}, 200),
        ("GET", "", {"if-match": '"A"'}, 200),
        ("GET", "", {"if-match": '"B", "A"'}, 200),
        ("GET", "", {"if-match": "*"}, 200),
        ("GET", "", {"if-match": '"B"'}, 412),
        ("GET", "", {"if-match": 'W/"A"'}, 412),
        ("GET", '"A"', {"if-match": '"B"'}, 412),
        ("GET", '"A"', {"if-match": '"A"'}, 304),
        ("GET", "", {"if-unmodified-since": AT}, 200),
        ("GET", "", {"if-unmodified-since": BEFORE}, 412),
        ("GET", "", {"if-unmodified-since": "never"}, 200),
        ("GET", "", {"if-match": '"A"', "if-unmodified-since": BEFORE}, 200),
    ],
)
def test_preconditions(method: str, none_match: str, fields: dict[str, str], status: int) -> None:
    assert precondition_status(method, none_match, fields, CONTENT) == status


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("bytes=0-0", (0, 1)),
        ("bytes=0-99", (0, 100)),
        ("bytes=10-", (10, 100)),
        ("bytes=10-1000", (10, 100)),
        ("bytes=-10", (90, 100)),
        ("bytes=-1000", (0, 100)),
        ("bytes= 1 - 2 ", (1, 3)),
        ("bytes=0-1,5-6", None),
    ],
)
def test_a_range_is_a_part(text: str, part: tuple[int, int] | None) -> None:
    assert byte_range({"range": text}, CONTENT, 100) == part


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bytes=100-", "invalid range: failed to overlap"),
        ("bytes=5-4", "invalid range"),
        ("bytes=-", "invalid range"),
        ("bytes=a-b", "invalid range"),
        ("lines=1-2", "invalid range"),
        ("bytes", "invalid range"),
        (f"bytes={'9' * 4000}-", "invalid range"),
    ],
)
def test_a_range_that_is_none_is_refused(text: str, message: str) -> None:
    with pytest.raises(RangeNotSatisfiable, match=f"^{re.escape(message)}$"):
        byte_range({"range": text}, CONTENT, 100)


@pytest.mark.parametrize(
    ("if_range", "is_part"),
    [('"A"', True), ('"B"', False), ('W/"A"', False), (AT, True), (AFTER, False), ("x", False)],
)
def test_a_part_is_only_sent_of_the_content_that_the_client_has(
    if_range: str, *, is_part: bool
) -> None:
    found = byte_range({"range": "bytes=0-0", "if-range": if_range}, CONTENT, 100)
    assert found == ((0, 1) if is_part else None)


def test_a_time_of_modification_lasts_as_long_as_the_entity_tag() -> None:
    now = 100.9
    times = ModificationTimes(lambda: now)
    assert times.since("a", '"1"') == 100
    now = 200.0
    assert times.since("a", '"1"') == 100
    assert times.since("b", '"1"') == 200
    assert times.since("a", '"2"') == 200
