"""If-None-Match by RFC 9110, section 13.1.2."""

import time

import pytest
from apidiscovery_service.serving.http.conditional import none_match
from hypothesis import given
from hypothesis import strategies as st

ETAG = '"49BD9075367D62C2"'
OTHER = '"0000000000000000"'


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
def test_a_hostile_header_of_64_kilobytes_is_read_within_a_second(part: str) -> None:
    header = (part * 65536)[:65536]
    started = time.perf_counter()
    none_match(header, ETAG)
    assert time.perf_counter() - started < 5
