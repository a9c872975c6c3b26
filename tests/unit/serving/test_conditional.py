"""Conditional requests and ranges by RFC 9110."""

import re
import time
from datetime import UTC, datetime

import pytest
from apidiscovery_service.serving.http.conditional import (
    Content,
    ModificationTimes,
    RangeNotSatisfiable,
    byte_range,
    http_date,
    none_match,
    precondition_status,
)
from hypothesis import given
from hypothesis import strategies as st

ETAG = '"49BD9075367D62C2"'
OTHER = '"0000000000000000"'

MODIFIED = int(datetime(2026, 5, 4, 10, 0, 0, tzinfo=UTC).timestamp())
CONTENT = Content('"A"', MODIFIED)
BEFORE, AT, AFTER = (http_date(MODIFIED + seconds) for seconds in (-1, 0, 1))


@pytest.mark.parametrize(
    "if_none_match",
    [
        pytest.param(ETAG, id="the-tag"),
        pytest.param(f"W/{ETAG}", id="weak"),
        pytest.param(f"{OTHER}, {ETAG}", id="second"),
        pytest.param(f"{ETAG}, {OTHER}", id="first"),
        pytest.param(f"{OTHER},W/{ETAG},{OTHER}", id="weak-in-the-middle"),
        pytest.param(f"  {ETAG}\t", id="white-space"),
        pytest.param(f",, ,{ETAG},", id="empty-elements"),
        pytest.param(f'"a,b", {ETAG}', id="after-a-tag-with-a-comma"),
        pytest.param("*", id="any"),
        pytest.param(" * ", id="any-with-spaces"),
    ],
)
def test_a_client_that_has_the_document_gets_304(if_none_match: str) -> None:
    assert none_match(if_none_match, ETAG) is False


@pytest.mark.parametrize(
    "if_none_match",
    [
        pytest.param("", id="absent"),
        pytest.param(OTHER, id="other"),
        pytest.param(f"W/{OTHER}", id="other-weak"),
        pytest.param(ETAG.strip('"'), id="unquoted"),
        pytest.param(ETAG.lower(), id="lower-case"),
        pytest.param(ETAG[:-2] + '"', id="beginning"),
        pytest.param(f'"x{ETAG[1:]}', id="end"),
        pytest.param(f'"{ETAG.strip(chr(34))}', id="no-quote-at-the-end"),
        pytest.param(ETAG.replace('"', "'"), id="single-quotes"),
        pytest.param('""', id="empty-tag"),
        pytest.param(ETAG.replace("49", "4 9"), id="space-inside"),
        pytest.param(ETAG.replace("49", "4\x009"), id="nul-inside"),
        pytest.param('"*"', id="quoted-star"),
        pytest.param(f"*, {OTHER}", id="star-in-a-list"),
    ],
)
def test_a_client_that_may_not_have_it_gets_200(if_none_match: str) -> None:
    assert none_match(if_none_match, ETAG) is True


TAGS = st.text("ABC123,*/W!", min_size=1, max_size=6).map('"{}"'.format)


@given(st.lists(TAGS, max_size=5), TAGS, st.lists(st.booleans(), min_size=5, max_size=5))
def test_a_list_matches_if_and_only_if_the_tag_is_in_it(
    tags: list[str], etag: str, weak: list[bool]
) -> None:
    header = ", ".join(f"W/{tag}" if w else tag for tag, w in zip(tags, weak, strict=False))
    assert none_match(header, etag) is (etag not in tags)


@given(st.text(max_size=60) | st.text('"W/, *AB', max_size=60))
def test_a_header_without_the_tag_never_matches(header: str) -> None:
    matches = none_match(header, ETAG) is False
    assert not matches or ETAG in header or header.strip() == "*"


@pytest.mark.parametrize("part", ['"', "W/", '"a', 'W/"a",', "*", ",", "a"])
def test_a_hostile_header_of_64_kilobytes_is_read_within_seconds(part: str) -> None:
    header = (part * 65536)[:65536]
    started = time.perf_counter()
    none_match(header, ETAG)
    assert time.perf_counter() - started < 5


# Preconditions and ranges of static content.


def test_a_date_is_in_greenwich_time() -> None:
    assert AT == "Mon, 04 May 2026 10:00:00 GMT"


@pytest.mark.parametrize(
    ("method", "tags", "fields", "status"),
    [
        ("GET", "", {}, 200),
        ("GET", '"A"', {}, 304),
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
def test_preconditions_decide_the_status(
    method: str, tags: str, fields: dict[str, str], status: int
) -> None:
    assert precondition_status(method, tags, fields, CONTENT) == status


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
def test_an_invalid_range_is_refused(text: str, message: str) -> None:
    with pytest.raises(RangeNotSatisfiable, match=f"^{re.escape(message)}$"):
        byte_range({"range": text}, CONTENT, 100)


@pytest.mark.parametrize(
    ("if_range", "is_part"),
    [('"A"', True), ('"B"', False), ('W/"A"', False), (AT, True), (AFTER, False), ("x", False)],
)
def test_a_part_is_sent_only_if_the_client_has_the_same_content(
    if_range: str, *, is_part: bool
) -> None:
    found = byte_range({"range": "bytes=0-0", "if-range": if_range}, CONTENT, 100)
    assert found == ((0, 1) if is_part else None)


def test_the_time_of_modification_changes_with_the_entity_tag() -> None:
    now = 100.9
    times = ModificationTimes(lambda: now)
    assert times.since("a", '"1"') == 100
    now = 200.0
    assert times.since("a", '"1"') == 100
    assert times.since("b", '"1"') == 200
    assert times.since("a", '"2"') == 200
