"""Decoding of request bodies, and their errors."""

import pytest
from apidiscovery_formats.negotiation import JSON, Serializer
from apidiscovery_service.kube.objects.decoding import Decoded, Undecodable, decode
from apidiscovery_service.kube.objects.kinds import STORAGE_VERSION, ObjectKind
from apidiscovery_service.kube.wire import envelope

# Prefixes of messages: about a field with a wrong value, and about an object of another kind.
TYPED = 'StorageVersion in version "v1alpha1" cannot be handled as a StorageVersion: '
UNRECOGNIZED = "the object provided is unrecognized (must be of type StorageVersion): "


def read(text: str, serializer: Serializer = JSON, kind: ObjectKind = STORAGE_VERSION) -> Decoded:
    return decode(text.encode(), serializer, kind)


def refused(body: bytes, serializer: Serializer = JSON, kind: ObjectKind = STORAGE_VERSION) -> str:
    with pytest.raises(Undecodable) as caught:
        decode(body, serializer, kind)
    return str(caught.value)


def wire(raw: bytes, kind: ObjectKind = STORAGE_VERSION) -> bytes:
    return envelope(kind.api_version, kind.kind, raw)
