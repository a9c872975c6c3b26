"""Token files as kube-apiserver reads them."""

import re

import pytest
from apidiscovery_service.access import Caller
from apidiscovery_service.access.credentials import Tokens, parse_tokens
from apidiscovery_service.errors import InvalidConfiguration


def test_a_file_is_read() -> None:
    content = b'abc,ann,1,"east,west"\n\r\n"d,e",bob,2\r\nf,cid,3,\nlast,dan,4,solo,more'
    tokens = parse_tokens(content, "t.csv")
    assert tokens.caller(b"abc") == Caller("ann", ("east", "west"))
    assert tokens.caller(b"d,e") == Caller("bob")
    assert tokens.caller(b"f") == Caller("cid", ("",))
    assert tokens.caller(b"last") == Caller("dan", ("solo",))
    assert tokens.caller(b"ab") is None
    assert tokens.caller(b"") is None
    assert (len(tokens), tokens.warnings) == (4, ())


def test_an_empty_file_has_no_callers() -> None:
    assert len(parse_tokens(b"", "t.csv")) == 0
    assert Tokens().caller(b"") is None


def test_odd_lines_are_reported_and_the_later_one_counts() -> None:
    tokens = parse_tokens(b"secret,ann,1\nsecret,bob,2\n,cid,3\n", "t.csv")
    assert tokens.caller(b"secret") == Caller("bob")
    assert tokens.caller(b"") is None
    assert tokens.warnings == (
        "t.csv:2: an earlier line has the same token, the later line is used",
        "t.csv:3: the token is empty, the line is skipped",
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"secret,ann,1\nsecret,bob\n",
            "t.csv:2: want at least 3 columns (token, user name, user id), got 2",
        ),
        (b"secret,,1\n", "t.csv:1: want a user name in column 2, got none"),
        (b'secret,ann,1\n"secret"x,bob,2\n', "t.csv:2: no CSV: ',' expected after '\"'"),
        (b'"secret,ann,1\n', "t.csv:1: no CSV: unexpected end of data"),
        (b"secret,ann,1\nsecret\xff,bob,2\n", "t.csv:2: not UTF-8"),
    ],
)
def test_errors_have_the_line_and_not_the_token(content: bytes, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"^{re.escape(message)}$") as caught:
        parse_tokens(content, "t.csv")
    assert caught.value.__cause__ is None
    assert "secret" not in str(caught.value)


def test_no_token_is_shown() -> None:
    tokens = parse_tokens(b"secret,ann,1\n", "t.csv")
    assert repr(tokens) == "<Tokens 1>"
    assert b"secret" not in b"".join(tokens._callers)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
