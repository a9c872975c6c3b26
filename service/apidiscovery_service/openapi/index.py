"""The list of documents that `/openapi/v3` is.

Source: k8s.io/kube-openapi pkg/handler3/handler.go:OpenAPIV3Discovery.
"""

import hashlib
from collections.abc import Mapping
from urllib.parse import quote

from apidiscovery_service import go_json
from apidiscovery_service.openapi.body import Index

# What Go's url.URL leaves as it is in a path.
# Source: net/url url.go:shouldEscape, mode encodePath.
_PATH_SAFE = "/$&+,:;=@~"


def make_index(hashes: Mapping[str, str], notes: Mapping[str, str]) -> Index:
    """Return the index of documents.

    Args:
        hashes: Of each document by key, in any order.
        notes: What is to be said of some of them, by key.
    """
    entries = {key: hashes[key] for key in sorted(hashes)}
    body = go_json.dumps(
        {"paths": {key: {"serverRelativeURL": _url(key, entries[key])} for key in entries}}
    )
    return Index(
        entries,
        body,
        hashlib.sha512(body).hexdigest().upper(),
        {key: notes[key] for key in sorted(notes) if key in entries},
    )


def _url(key: str, document_hash: str) -> str:
    return f"/openapi/v3/{quote(key, safe=_PATH_SAFE)}?hash={document_hash}"
