"""Which resource a text means: kubectl's rules, with every doubt told."""

from apidiscovery_client.resolving.common_version import (
    CommonVersion,
    ServerVersion,
    ServerVersions,
    Serving,
    best_common_version,
)
from apidiscovery_client.resolving.explanation import Explanation, Resolution, full_name
from apidiscovery_client.resolving.reading import Exact, Reading
from apidiscovery_client.resolving.resolver import Resolver
from apidiscovery_client.resolving.rules import Rule, Why
from apidiscovery_client.resolving.search import Step
from apidiscovery_client.resolving.version_order import compare_versions

__all__ = [
    "CommonVersion",
    "Exact",
    "Explanation",
    "Reading",
    "Resolution",
    "Resolver",
    "Rule",
    "ServerVersion",
    "ServerVersions",
    "Serving",
    "Step",
    "Why",
    "best_common_version",
    "compare_versions",
    "full_name",
]
