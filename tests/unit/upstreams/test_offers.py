"""An upstream as a cluster of a fleet."""

from dataclasses import replace

from apidiscovery_service.core.model import Freshness, Group, Version
from apidiscovery_service.core.source import SourceStatus
from apidiscovery_service.sources.upstreams.offers import UpstreamView, cluster_of
from apidiscovery_service.sources.upstreams.state import Known, Root
from upstream_setup import spec_of

NAMED = Root(
    "/apis",
    core=False,
    state=Freshness.CURRENT,
    groups=(Group("a.test", (Version("v1"),)),),
    has_answered=True,
)
STATUS = SourceStatus("upstream:east")


def test_a_path_that_answered_without_groups_has_none_even_when_it_fails() -> None:
    spec = spec_of("http://127.0.0.1:1")
    core = Root("/api", core=True, state=Freshness.CURRENT, has_answered=True)
    failed = replace(core, state=Freshness.STALE)
    never = Root("/api", core=True)
    for root, wanted in ((core, ()), (failed, ()), (never, None)):
        assert cluster_of(spec, UpstreamView(Known(1, (root, NAMED))), STATUS).core == wanted
