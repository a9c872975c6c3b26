"""Feature gates with kube-apiserver's names, and this server's defaults.

Source: k8s.io/apiserver pkg/features/kube_features.go.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from apidiscovery_service.errors import InvalidConfiguration

AGGREGATED_DISCOVERY = "AggregatedDiscoveryEndpoint"
OPENAPI_V3 = "OpenAPIV3"
REMOVE_BETA_TYPE = "AggregatedDiscoveryRemoveBetaType"
RESPONSE_COMPRESSION = "APIResponseCompression"
STORAGE_VERSION_API = "StorageVersionAPI"
STORAGE_VERSION_HASH = "StorageVersionHash"

_DEFAULTS = {
    AGGREGATED_DISCOVERY: True,
    # On in kube-apiserver since 1.33; off here, so that clients up to 1.29 work.
    REMOVE_BETA_TYPE: False,
    OPENAPI_V3: True,
    RESPONSE_COMPRESSION: True,
    # Alpha since 1.20, and off in kube-apiserver too.
    STORAGE_VERSION_API: False,
    STORAGE_VERSION_HASH: True,
}

# The values of Go's strconv.ParseBool.
_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """Which features are on."""

    enabled: Mapping[str, bool] = field(default_factory=_DEFAULTS.copy)

    def __getitem__(self, gate: str) -> bool:
        return self.enabled[gate]

    @property
    def aggregated_versions(self) -> tuple[str, ...]:
        """The served versions of the aggregated document; none if it is switched off."""
        if not self[AGGREGATED_DISCOVERY]:
            return ()
        return ("v2",) if self[REMOVE_BETA_TYPE] else ("v2", "v2beta1")

    @classmethod
    def parse(cls, text: str) -> "FeatureGates":
        """Parse `Name=true,Other=false`; other gates keep their defaults.

        Raises:
            InvalidConfiguration: A gate is unknown, or a value is not a boolean.
        """
        enabled = dict(_DEFAULTS)
        for part in filter(None, map(str.strip, text.split(","))):
            name, equals, value = (piece.strip() for piece in part.partition("="))
            if name not in _DEFAULTS:
                known = ", ".join(_DEFAULTS)
                raise InvalidConfiguration(f"unknown feature gate {name!r}; known are {known}")
            if not equals or value not in _BOOLEANS:
                raise InvalidConfiguration(
                    f"feature gate {name} wants =true or =false, not {equals + value!r}"
                )
            enabled[name] = _BOOLEANS[value]
        return cls(enabled)
