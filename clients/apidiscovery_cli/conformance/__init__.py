"""Checks whether an API server does discovery as clients and kube-aggregator need it."""

from apidiscovery_cli.conformance.check import Check, Outcome, Profile, Result
from apidiscovery_cli.conformance.exchange import Asked, Endpoint, NoAnswer
from apidiscovery_cli.conformance.running import CHECKS, Report, run
from apidiscovery_cli.conformance.subject import NotAllowed

__all__ = [
    "CHECKS",
    "Asked",
    "Check",
    "Endpoint",
    "NoAnswer",
    "NotAllowed",
    "Outcome",
    "Profile",
    "Report",
    "Result",
    "run",
]
