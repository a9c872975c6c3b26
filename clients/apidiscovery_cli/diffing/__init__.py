"""What an upgrade, or another server, changes for the clients of an API."""

from apidiscovery_cli.diffing.comparing import compare
from apidiscovery_cli.diffing.findings import Doubt, Finding, Report, Rule, Severity
from apidiscovery_cli.diffing.knowledge import Names
from apidiscovery_cli.diffing.rendering import FORMATS, render

__all__ = [
    "FORMATS",
    "Doubt",
    "Finding",
    "Names",
    "Report",
    "Rule",
    "Severity",
    "compare",
    "render",
]
