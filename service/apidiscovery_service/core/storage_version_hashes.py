"""The hash of a resource's storage version in an unaggregated APIResourceList."""

import base64
import hashlib

_HASHED_BYTES = 8


def storage_version_hash(group: str, version: str, kind: str) -> str:
    """Return the `storageVersionHash` of a storage version.

    Clients compare it for equality: it changes when the storage version does, and objects have to
    be migrated then. Source: k8s.io/apiserver
    `pkg/endpoints/discovery/storageversionhash.go:StorageVersionHash`.

    Args:
        group: Group of the storage version; empty for the core group.
        version: The storage version, which need not be the one served.
        kind: Kind as stored.

    Returns:
        12 characters: the first 8 bytes of the SHA-256 of `group/version/kind` in standard base64,
        with its padding.
    """
    digest = hashlib.sha256(f"{group}/{version}/{kind}".encode()).digest()
    return base64.b64encode(digest[:_HASHED_BYTES]).decode("ascii")
