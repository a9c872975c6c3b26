"""Which resource a text means: kubectl's rules, with every uncertainty reported."""

from apidiscovery_client.resolving.common_version import (
    CommonVersion,
    ServerVersion,
    ServerVersions,
    Serving,
    best_common_version,
    compare_versions,
)
from apidiscovery_client.resolving.explanation import Explanation, Resolution, full_name
from apidiscovery_client.resolving.reading import Exact, Reading
from apidiscovery_client.resolving.resolver import Resolver
from apidiscovery_client.resolving.search import Rule, Step, Why

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
