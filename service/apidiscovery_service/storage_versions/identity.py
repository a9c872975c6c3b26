"""By which name an API server is known.

Source: k8s.io/apiserver pkg/server/config.go, `NewConfig`: the identity of a kube-apiserver is a
hash of its host name; and pkg/controlplane/apiserver/server.go of kubernetes/kubernetes, which
names the lease by it.
"""

import base64
import hashlib

KUBE_APISERVER = "kube-apiserver"

_HASHED_BYTES = 16


def identity(hostname: str, component: str = KUBE_APISERVER) -> str:
    """Return the identity of an API server, the same in each of its lives.

    >>> identity("node-1")
    'apiserver-lgabes5ywnaqeagh5dny4zlzs4'

    Args:
        hostname: Of the machine; at most 65 535 bytes.
        component: What kind of API server it is; at most 65 535 bytes.

    Returns:
        `apiserver-` and 26 letters and digits: the first 16 bytes of a SHA-256 in lower-case base32
        without padding.
    """
    digest = hashlib.sha256(_part(hostname) + _part(component)).digest()
    text = base64.b32encode(digest[:_HASHED_BYTES]).decode("ascii")
    return f"apiserver-{text.rstrip('=').lower()}"


def _part(text: str) -> bytes:
    """Return a text behind its length, so that no two pairs of texts give the same bytes."""
    data = text.encode()
    return len(data).to_bytes(2, "big") + data
