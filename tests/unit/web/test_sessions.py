"""Sessions end when they are idle, are bounded, and forms are bound to their browser."""

import pytest
from apidiscovery_service.web.login import location_of
from apidiscovery_service.web.sessions import Sessions, cookie, set_cookie

_IDLE_S = 8 * 3600
_MOST = 1024


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_session_keeps_its_authorization_until_it_ends() -> None:
    sessions = Sessions()
    name = sessions.begin(b"Bearer a")
    assert sessions.authorization(name) == b"Bearer a"
    assert "Bearer" not in name
    sessions.end(name)
    sessions.end(name)
    assert sessions.authorization(name) is None


def test_a_session_that_is_used_goes_on_and_an_idle_one_ends() -> None:
    clock = _Clock()
    sessions = Sessions(clock)
    used, idle = sessions.begin(b"used"), sessions.begin(b"idle")
    for _ in range(3):
        clock.now += _IDLE_S / 2
        assert sessions.authorization(used) == b"used"
    assert sessions.authorization(idle) is None


def test_only_the_least_recently_used_sessions_are_given_up() -> None:
    sessions = Sessions()
    first, second = sessions.begin(b"first"), sessions.begin(b"second")
    for _ in range(_MOST - 2):
        sessions.begin(b"another")
    assert sessions.authorization(first) == b"first"
    sessions.begin(b"one too many")
    assert sessions.authorization(first) == b"first"
    assert sessions.authorization(second) is None


def test_a_form_token_is_of_one_browser_and_of_one_process() -> None:
    sessions = Sessions()
    token = sessions.form_token("mine")
    assert sessions.is_form_token(token, "mine")
    assert not sessions.is_form_token(token, "yours")
    assert not sessions.is_form_token(token, "")
    assert not sessions.is_form_token(sessions.form_token(""), "")
    assert not sessions.is_form_token("é", "mine")
    assert not Sessions().is_form_token(token, "mine")


def test_a_cookie_is_kept_from_scripts_and_other_sites() -> None:
    field = set_cookie("__Host-name", "value").decode()
    assert field == "__Host-name=value; Path=/; Secure; HttpOnly; SameSite=Strict"
    assert set_cookie("__Host-name", "").decode().endswith("; Max-Age=0")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("a=1; b=2", "1", id="several"),
        pytest.param("b=2", "", id="absent"),
        pytest.param("", "", id="empty"),
        pytest.param('a="1"', "1", id="quoted"),
        pytest.param("=;;=\x00", "", id="garbage"),
        pytest.param('b={"json": [1, 2]}; a=1', "1", id="beside-what-is-no-cookie"),
    ],
)
def test_a_cookie_is_read_from_its_field(field: str, value: str) -> None:
    assert cookie(field, "a") == value


@pytest.mark.parametrize(
    ("text", "page"),
    [
        pytest.param("/ui/diff?from=a&to=b", "/ui/diff?from=a&to=b", id="back"),
        pytest.param("/ui/login?next=/ui/", "/ui/", id="the-form-itself"),
        pytest.param("/ui/logout", "/ui/", id="logout"),
        pytest.param("https://203.0.113.1/ui/", "/ui/", id="another-origin"),
        pytest.param("//203.0.113.1/ui/", "/ui/", id="another-host"),
        pytest.param("/\\203.0.113.1/ui/", "/ui/", id="another-host-by-a-backslash"),
        pytest.param("/ui/\\..\\", "/ui/", id="backslashes"),
        pytest.param("/ui/\r\nSet-Cookie: a=b", "/ui/", id="header"),
        pytest.param("javascript:alert(1)", "/ui/", id="script"),
        pytest.param("/clusters", "/ui/", id="no-page"),
        pytest.param("", "/ui/", id="nothing"),
        pytest.param("/ui/é", "/ui/", id="not-ascii"),
    ],
)
def test_a_login_leads_to_a_page_of_this_server(text: str, page: str) -> None:
    assert location_of(text) == page
