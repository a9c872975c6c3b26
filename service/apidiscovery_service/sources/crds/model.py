"""CustomResourceDefinitions: the fields that discovery and OpenAPI documents depend on.

Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/v1/types.go.
"""

from dataclasses import dataclass, field
from typing import Final

import zstandard

# Takes little time beside reading the document.
_LEVEL: Final = 3


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a resource."""

    plural: str
    singular: str
    kind: str
    list_kind: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CrdVersion:
    """A version of a custom resource.

    Attributes:
        served: Whether clients can use it.
        storage: Whether objects are stored in it; true of exactly one version.
        status: Whether objects have a `status` subresource in it.
        scale: Whether objects have a `scale` subresource in it.
        packed: The entry of `spec.versions` as JSON, compressed. The OpenAPI document of the
            version is made from it alone, so it does not depend on other versions.
    """

    name: str
    served: bool
    storage: bool
    status: bool = False
    scale: bool = False
    packed: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a status, as text; `since` is its lastTransitionTime, empty for none."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    since: str = ""


@dataclass(frozen=True, slots=True)
class StatedStatus:
    """The status in a document.

    Attributes:
        accepted: None if there are no names, or only empty ones.
        conditions: In the order of the document.
        final: Whether another server decided the conditions, so that they are not changed here.
    """

    accepted: Names | None = None
    conditions: tuple[Condition, ...] = ()
    stored_versions: tuple[str, ...] = ()
    final: bool = True


@dataclass(frozen=True, slots=True)
class CustomResourceDefinition:
    """A CustomResourceDefinition of apiextensions.k8s.io/v1, valid and with defaults.

    Attributes:
        name: `<plural>.<group>`.
        scope: `Cluster` or `Namespaced`.
        names: The wanted names, with the defaults of singular and listKind.
        versions: In the order of the document.
        approval: The annotation api-approved.kubernetes.io, empty for none.
        created: metadata.creationTimestamp, empty for none.
        terminating: Whether there is a metadata.deletionTimestamp.
        stated: None if the document has no status, or an empty one.
    """

    name: str
    group: str
    scope: str
    names: Names
    versions: tuple[CrdVersion, ...]
    approval: str = ""
    created: str = ""
    terminating: bool = False
    finalizers: tuple[str, ...] = ()
    stated: StatedStatus | None = None

    @property
    def size(self) -> int:
        """The bytes of its versions as JSON: nearly all of the document."""
        return sum(zstandard.frame_content_size(version.packed) for version in self.versions)


def packed(document: bytes) -> bytes:
    """Return a document compressed: schemas are large, and shrink to a fifteenth."""
    # Copied, since the result is cut from a buffer as large as the document, and the rest of it is
    # too small for the next one: without a copy the heap grows by 65 MB, not 5, with many of them.
    return bytes(memoryview(zstandard.compress(document, _LEVEL)))
