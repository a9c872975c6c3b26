"""Media types of aggregated discovery documents."""


def aggregated_type(version: str = "v2", serializer: str = "json") -> str:
    """Return the media type of an APIGroupDiscoveryList.

    Args:
        version: `v2` or `v2beta1`.
        serializer: The subtype: `json`, `yaml` or `vnd.kubernetes.protobuf`.
    """
    parameters = f"g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    return f"application/{serializer};{parameters}"


JSON_V2 = aggregated_type()
JSON_V2BETA1 = aggregated_type("v2beta1")
PROTOBUF_V2 = aggregated_type(serializer="vnd.kubernetes.protobuf")
YAML_V2 = aggregated_type(serializer="yaml")
