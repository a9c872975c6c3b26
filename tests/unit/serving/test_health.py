"""Health reports: kube-apiserver's texts."""

import pytest
from apidiscovery_service.serving.health import ENDPOINTS, Checks, Endpoint


def passing() -> None:
    """Find nothing wrong."""


def failing() -> str:
    return "the reason"


def checks() -> Checks:
    """Return a check that passes everywhere and two of `/readyz`, the second of which fails."""
    made = Checks()
    made.add("ping", passing)
    made.add("sync", passing, ["readyz"])
    made.add("shutdown", failing, ["readyz"])
    return made


REPORTS = [
    pytest.param("healthz", (), True, "[+]ping ok\nhealthz check passed\n", id="healthz"),
    pytest.param("livez", (), True, "[+]ping ok\nlivez check passed\n", id="livez"),
    pytest.param(
        "readyz",
        (),
        False,
        "[+]ping ok\n[+]sync ok\n[-]shutdown failed: reason withheld\nreadyz check failed\n",
        id="failed",
    ),
    pytest.param(
        "readyz",
        ("shutdown",),
        True,
        "[+]ping ok\n[+]sync ok\n[+]shutdown excluded: ok\nreadyz check passed\n",
        id="excluded",
    ),
    pytest.param(
        "livez",
        ("nope", "also"),
        True,
        "[+]ping ok\n"
        'warn: some health checks cannot be excluded: no matches for "also","nope"\n'
        "livez check passed\n",
        id="unknown-excluded",
    ),
    pytest.param(
        "livez",
        ("shutdown",),
        True,
        "[+]ping ok\n"
        'warn: some health checks cannot be excluded: no matches for "shutdown"\n'
        "livez check passed\n",
        id="excluded-elsewhere",
    ),
]


@pytest.mark.parametrize(("endpoint", "exclude", "passed", "text"), REPORTS)
def test_a_report_has_the_text_of_kubernetes(
    endpoint: Endpoint, exclude: tuple[str, ...], passed: object, text: str
) -> None:
    report = checks().report(endpoint, exclude)
    assert (report.passed, report.text) == (passed, text)


def test_checks_stand_in_the_order_in_which_they_were_added() -> None:
    assert checks().names("readyz") == ("ping", "sync", "shutdown")
    assert checks().names("livez") == checks().names("healthz") == ("ping",)


def test_no_checks_pass() -> None:
    assert [Checks().report(e).text for e in ENDPOINTS] == [
        f"{endpoint} check passed\n" for endpoint in ("healthz", "livez", "readyz")
    ]


def test_a_single_check_tells_its_reason() -> None:
    assert checks().single("readyz", "shutdown") == "the reason"
    assert checks().single("readyz", "ping") is None


@pytest.mark.parametrize(("endpoint", "name"), [("livez", "shutdown"), ("readyz", "nope")])
def test_a_check_of_no_such_endpoint_is_unknown(endpoint: Endpoint, name: str) -> None:
    with pytest.raises(KeyError):
        checks().single(endpoint, name)


def test_warnings_are_shown_by_readyz_alone_and_never_make_it_fail() -> None:
    made = Checks()
    made.add_warnings(lambda: ["a is broken", "b is broken"])
    report = made.report("readyz")
    assert report.passed
    assert report.text == "warn: a is broken\nwarn: b is broken\nreadyz check passed\n"
    assert made.report("livez").text == "livez check passed\n"


def test_each_run_is_observed_but_not_that_of_an_excluded_check() -> None:
    seen: list[tuple[str, Endpoint, bool]] = []
    made = Checks(lambda name, endpoint, passed: seen.append((name, endpoint, passed)))
    made.add("ping", passing)
    made.add("shutdown", failing, ["readyz"])
    made.report("readyz", ["ping"])
    made.single("livez", "ping")
    assert seen == [("shutdown", "readyz", False), ("ping", "livez", True)]


def test_a_check_is_run_each_time() -> None:
    answers: list[str | None] = [None, "now wrong"]
    made = Checks()
    made.add("changing", lambda: answers.pop(0))
    assert [made.report("livez").passed, made.report("livez").passed] == [True, False]


def test_the_name_of_an_excluded_check_is_escaped() -> None:
    report = Checks().report("readyz", ['a"b\n[-]c'])
    assert report.text.splitlines() == [
        r'warn: some health checks cannot be excluded: no matches for "a\"b\n[-]c"',
        "readyz check passed",
    ]
