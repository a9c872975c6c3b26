"""Compares what two servers serve: what an upgrade, or another server, changes for clients."""

from apidiscovery_cli.diffing.comparing import compare
from apidiscovery_cli.diffing.findings import Doubt, Finding, Report, Rule, Severity
from apidiscovery_cli.diffing.rendering import FORMATS, render
from apidiscovery_cli.diffing.sides import Names

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
