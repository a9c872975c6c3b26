"""Names of releases of Kubernetes, and the versions of discovery that each release serves."""

import re

_NAME = re.compile(r"v?1\.(\d{1,3})(?:\.\d{1,4})?", re.ASCII)
_AGGREGATES_FROM = 27  # 1.26 has it as an alpha feature, off by default
_HAS_V2_FROM = 30
_DROPS_V2BETA1_FROM = 33


class UnknownRelease(ValueError):
    """A text names no release, or one of which nothing is recorded."""


def minor_of(name: str) -> int:
    """Return the minor version of a release.

    Args:
        name: Such as `1.31`, `v1.31` or `1.31.4`; the patch release does not count.

    Raises:
        UnknownRelease: It is not the name of a release.

    >>> minor_of("v1.31")
    31
    """
    matched = _NAME.fullmatch(name)
    if matched is None:
        raise UnknownRelease(f"{name[:100]!r} is not a release of Kubernetes; write it as '1.30'")
    return int(matched[1])


def wire_versions(minor: int) -> tuple[str, ...]:
    """Return the versions of the aggregated document that a release serves by default.

    The preferred one comes first; none before 1.27.

    Source: k8s.io/apiserver pkg/features/kube_features.go `AggregatedDiscoveryEndpoint`,
    `AggregatedDiscoveryRemoveBetaType`.
    """
    if minor < _AGGREGATES_FROM:
        return ()
    if minor < _HAS_V2_FROM:
        return ("v2beta1",)
    return ("v2", "v2beta1") if minor < _DROPS_V2BETA1_FROM else ("v2",)
