"""OpenAPI documents with kinds, and a fake `Documents` that serves them."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apidiscovery_service.encoding import compression
from apidiscovery_service.encoding.compression import Coding
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.openapi.body import Body, DocumentForm, Index

GVK = "x-kubernetes-group-version-kind"


def document_of(
    group: str, version: str, kinds: Mapping[str, Mapping[str, object]], text: str = ""
) -> bytes:
    """Return a document with operations and schemas of kinds.

    Args:
        group: Empty for the core group.
        version: Of the group.
        kinds: The properties of the `spec` of each.
        text: A description of each schema, to make it large.
    """
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {"io.k8s.Part": {"type": "object", "properties": {"x": {}}}}
    for kind, properties in kinds.items():
        gvk = {"group": group, "version": version, "kind": kind}
        paths[f"/apis/{kind.lower()}"] = {"get": {GVK: gvk}}
        spec = {"type": "object", "properties": dict(properties)}
        schemas[f"test.{kind}"] = {
            "type": "object",
            "description": text,
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "spec": spec,
            },
            GVK: [gvk],
        }
    return json.dumps(
        {"openapi": "3.0.0", "info": {}, "paths": paths, "components": {"schemas": schemas}}
    ).encode()


@dataclass
class MadeUpDocuments:
    """Documents by key, as `Documents` serves them.

    Attributes:
        texts: The documents; an error for one that cannot be read.
        asked: The keys of requested bodies.
        error: Raised by all methods.
    """

    texts: dict[str, bytes | DiscoveryError]
    asked: list[str] = field(default_factory=list[str])
    error: DiscoveryError | None = None
    generation: int = 0

    def _text(self, key: str) -> bytes | None:
        if self.error is not None:
            raise self.error
        text = self.texts.get(key)
        if isinstance(text, DiscoveryError):
            raise text
        return text

    async def index(self) -> Index:
        if self.error is not None:
            raise self.error
        return Index(dict.fromkeys(self.texts, ""), b"{}", "", {})

    async def hash_of(self, key: str) -> str | None:
        text = self._text(key)
        return None if text is None else hashlib.sha512(text).hexdigest().upper()

    async def body(self, key: str, form: DocumentForm, coding: Coding) -> Body | None:
        assert form is DocumentForm.JSON
        self.asked.append(key)
        text, digest = self._text(key), await self.hash_of(key)
        if text is None or digest is None:
            return None
        return Body(key, digest, compression.compress(text, coding), coding)

    async def merged_v2(self, form: DocumentForm, coding: Coding) -> None:
        """Return none."""
