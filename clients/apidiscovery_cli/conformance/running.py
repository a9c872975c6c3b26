"""Runs checks, one after the other, and reports their results."""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from apidiscovery_cli.conformance import (
    aggregated,
    aggregator,
    negotiation,
    other_endpoints,
    unaggregated,
)
from apidiscovery_cli.conformance.check import (
    Check,
    CheckOutcome,
    FailedError,
    Profile,
    Result,
    SkippedError,
)
from apidiscovery_cli.conformance.exchange import Endpoint, NoAnswer
from apidiscovery_cli.conformance.subject import Release, Subject

_SECTIONS = (
    aggregator.SECTION,
    aggregated.SECTION,
    negotiation.SECTION,
    unaggregated.SECTION,
    other_endpoints.OPENAPI,
    other_endpoints.SECTION,
)
CHECKS = tuple(
    sorted((one for section in _SECTIONS for one in section.checks), key=lambda one: one.number)
)


@dataclass(frozen=True, slots=True)
class Report:
    """The results of a run.

    Attributes:
        url: Of the server.
        release: Such as `1.30`, empty if unknown.
        aggregated: The version of its aggregated documents, empty if it has none.
        results: In the order of the checks.
        requests: How many requests were made.
        took_s: Seconds.
    """

    url: str
    profile: Profile
    release: str
    aggregated: str
    results: tuple[Result, ...]
    requests: int
    took_s: float

    def of(self, outcome: CheckOutcome) -> tuple[Result, ...]:
        """Return the results with an outcome."""
        return tuple(result for result in self.results if result.outcome is outcome)

    @property
    def passed(self) -> bool:
        """Whether no check has failed."""
        return not self.of(CheckOutcome.FAIL)


def run(
    endpoint: Endpoint,
    *,
    profile: Profile | None = None,
    release: Release | None = None,
    checks: Iterable[Check] = CHECKS,
) -> Report:
    """Check a server, which is only read from.

    Args:
        endpoint: The server.
        profile: The kind of server; None to detect it by the core group.
        release: The release of Kubernetes; None for the one that `/version` states.
        checks: The checks to run.

    Raises:
        NoAnswer: The server cannot be reached.
        NoApiServer: It is not an API server.
        NotAllowed: It refuses to let us read discovery.
    """
    started = time.monotonic()
    subject = Subject(endpoint, profile, release)
    results = tuple(_result(check, subject) for check in checks)
    return Report(
        endpoint.url,
        subject.profile,
        ".".join(map(str, subject.release)) if subject.release else "",
        subject.version or "",
        results,
        len(subject.session.log),
        time.monotonic() - started,
    )


def _result(check: Check, subject: Subject) -> Result:
    started, before = time.monotonic(), len(subject.session.log)
    outcome, seen, wanted, asked = CheckOutcome.PASS, "", "", None
    try:
        check.run(subject)
    except FailedError as error:
        outcome, seen, wanted, asked = CheckOutcome.FAIL, error.seen, error.wanted, error.asked
    except NoAnswer as error:
        outcome, seen, wanted, asked = CheckOutcome.FAIL, error.reason, "an answer", error.asked
    except SkippedError as error:
        outcome, seen = CheckOutcome.SKIP, str(error)
    requests = len(subject.session.log) - before
    return Result(check, outcome, seen, wanted, asked, requests, time.monotonic() - started)
