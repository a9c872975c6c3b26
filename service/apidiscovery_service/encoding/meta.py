"""The metadata that every document carries, empty but for a name.

Every scalar is set, empty or not: Kubernetes always writes them.
"""

from apidiscovery.meta.v1 import meta_pb2


def list_meta() -> meta_pb2.ListMeta:
    """Return the metadata of a list."""
    metadata = meta_pb2.ListMeta(self_link="", resource_version="")
    # The field is called `continue`, which Python cannot write as an attribute.
    setattr(metadata, "continue", "")
    return metadata


def object_meta(name: str) -> meta_pb2.ObjectMeta:
    """Return the metadata of an object that has nothing but a name."""
    return meta_pb2.ObjectMeta(
        name=name,
        generate_name="",
        namespace="",
        self_link="",
        uid="",
        resource_version="",
        generation=0,
        creation_timestamp=meta_pb2.Time(),
    )
