"""Checks whether an API server does discovery as clients and kube-aggregator need it."""

from apidiscovery_client.conformance.check import Check, Outcome, Profile, Result
from apidiscovery_client.conformance.exchange import Asked, Endpoint, NoAnswer
from apidiscovery_client.conformance.running import CHECKS, Report, run
from apidiscovery_client.conformance.subject import NotAllowed

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
