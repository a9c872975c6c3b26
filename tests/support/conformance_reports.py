"""The checks in a report about a server."""

from apidiscovery_cli.conformance.check import CheckOutcome
from apidiscovery_cli.conformance.running import Report


def numbers(report: Report, outcome: CheckOutcome) -> set[int]:
    """Return the numbers of the checks with an outcome."""
    return {result.check.number for result in report.of(outcome)}
