"""No check passes without having inspected anything."""

import pytest
from apidiscovery_cli.conformance.check import CheckOutcome, Profile
from apidiscovery_cli.conformance.exchange import Endpoint
from apidiscovery_cli.conformance.running import Report, run
from conformance_reports import numbers
from fake_api_server import Answer, FakeApiServer
from media_types import JSON_V2

EMPTY_AGGREGATED = (
    b'{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[]}'
)
EMPTY_PLAIN = b'{"kind":"APIGroupList","apiVersion":"v1","groups":[]}'

# Checks by what they inspect.
GROUP_VERSIONS, REFUSALS = 3, 8
OF_AGGREGATED_GROUPS = {13, 14, 15, 16}  # names, kinds, fields and freshness
GROUPS_ALONE, RESOURCE_LISTS, CORE_GROUP = 42, 43, 45


def report_of(answer: Answer, profile: Profile = Profile.EXTENSION) -> Report:
    """Return what is said of a server with one answer to everything."""
    with FakeApiServer(lambda _: answer) as server:
        return run(Endpoint(url=server.url), profile=profile)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(b"{}"),
        Answer(b""),
        Answer(b"null"),
        Answer(b"[]"),
        Answer(b"broken", "text/plain", 500),
        Answer(status=302, headers={"Location": "/apis"}),
        Answer(status=301, headers={"Location": "http://127.0.0.1:1/apis"}),
    ],
)
@pytest.mark.parametrize("profile", list(Profile))
def test_a_server_that_has_nothing_passes_nothing(answer: Answer, profile: Profile) -> None:
    report = report_of(answer, profile)
    assert numbers(report, CheckOutcome.PASS) == set()
    assert not report.passed


def test_without_groups_nothing_is_said_of_groups() -> None:
    report = report_of(Answer(EMPTY_AGGREGATED, JSON_V2))
    assert numbers(report, CheckOutcome.SKIP) >= {GROUP_VERSIONS, *OF_AGGREGATED_GROUPS}


def test_without_groups_nothing_is_said_of_unaggregated_groups() -> None:
    report = report_of(Answer(EMPTY_PLAIN))
    assert numbers(report, CheckOutcome.SKIP) >= {
        GROUP_VERSIONS,
        REFUSALS,
        GROUPS_ALONE,
        RESOURCE_LISTS,
    }
    assert CORE_GROUP in numbers(report, CheckOutcome.FAIL)  # a list of groups at /api
