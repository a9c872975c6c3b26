"""Compares what two servers serve: what an upgrade, or another server, changes for clients.

report = compare(release("1.31"), client.refresh())
broken = [f"{found.subject}: {found.message}" for found in report.breaking]

`apidiscovery_client.diffing.fields` puts changes of fields into words; it is apart, since their
comparison imports much more.
"""

from apidiscovery_client.diffing.comparing import compare
from apidiscovery_client.diffing.findings import Doubt, Finding, Report, Rule, Severity
from apidiscovery_client.diffing.sides import Names

__all__ = [
    "Doubt",
    "Finding",
    "Names",
    "Report",
    "Rule",
    "Severity",
    "compare",
]
