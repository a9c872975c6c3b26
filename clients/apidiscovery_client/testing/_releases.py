"""What each release of kube-apiserver can do, as far as discovery shows it."""

import re
from dataclasses import dataclass

DEFAULT_RELEASE = "1.36"

_RELEASE = re.compile(r"v?1\.(\d{1,3})(?:\.\d+)?")
_AGGREGATES_FROM = 27  # 1.26 has it as an alpha feature, off by default
_HAS_V2_FROM = 30
_DROPS_V2BETA1_FROM = 33
_OMITS_CREATION_FROM = 34  # ObjectMeta.creationTimestamp is `omitzero` since k8s.io/api 0.34


@dataclass(frozen=True, slots=True)
class Release:
    """A minor release of Kubernetes 1."""

    minor: int

    @property
    def aggregated_versions(self) -> tuple[str, ...]:
        """Return the versions of the aggregated document that it has by default.

        Source: k8s.io/apiserver pkg/features/kube_features.go `AggregatedDiscoveryEndpoint`,
        `AggregatedDiscoveryRemoveBetaType`.
        """
        if self.minor < _AGGREGATES_FROM:
            return ()
        if self.minor < _HAS_V2_FROM:
            return ("v2beta1",)
        return ("v2", "v2beta1") if self.minor < _DROPS_V2BETA1_FROM else ("v2",)

    @property
    def writes_creation(self) -> bool:
        """Whether groups have a `creationTimestamp` of null in aggregated documents."""
        return self.minor < _OMITS_CREATION_FROM

    @property
    def version_document(self) -> dict[str, str]:
        """Return what `/version` says."""
        return {
            "major": "1",
            "minor": str(self.minor),
            "gitVersion": f"v1.{self.minor}.0",
            "gitCommit": "",
            "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "",
            "compiler": "gc",
            "platform": "linux/amd64",
        }


def parse_release(text: str) -> Release:
    """Return the release that is called so, such as `1.30`.

    Raises:
        ValueError: It is none.
    """
    matched = _RELEASE.fullmatch(text)
    if matched is None:
        raise ValueError(f"{text!r} is no release of Kubernetes; write it as '1.30'")
    return Release(int(matched[1]))
