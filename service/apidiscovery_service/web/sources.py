"""The sources of a server, as far as a viewer may see them."""

from apidiscovery_service.access.grants import matching
from apidiscovery_service.core.source import SourceStatus
from apidiscovery_service.web.view import View


def visible_statuses(view: View) -> list[SourceStatus]:
    """Return the status of each source that can fail; those of hidden clusters are left out."""
    return [each for each in view.served.statuses() if is_visible(view, each.name)]


def is_visible(view: View, source: str) -> bool:
    """Tell whether a viewer may see a source, as ListSources of gRPC decides.

    A viewer of some clusters sees these, and what belongs to no cluster. Files of clusters may name
    any cluster.
    """
    if view.viewer.sees_all:
        return True
    kind, _, name = source.partition(":")
    if kind == "upstream":
        return matching(view.viewer.clusters).fullmatch(name) is not None
    return kind != "clusters"
