"""PartialObjectMetadata: the metadata of an object, for clients that ask for no more.

Source: k8s.io/apiserver pkg/endpoints/handlers/response.go (asPartialObjectMetadata).
"""

from apidiscovery_service.kube.objects.kinds import PARTIAL_OBJECT_METADATA, Kind, Object


def partial(item: Object, kind: Kind = PARTIAL_OBJECT_METADATA) -> Object:
    """Return the metadata of an object as an object.

    Args:
        item: The object.
        kind: `PARTIAL_OBJECT_METADATA` or `PARTIAL_OBJECT_METADATA_V1BETA1`.
    """
    return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": item["metadata"]}
