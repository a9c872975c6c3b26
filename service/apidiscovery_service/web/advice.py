"""What to do about a source that has an error, by the text of the error."""

import re

# The first pattern that is found decides. The texts are those of `sources.upstreams`.
_OF_SERVERS = (
    (r"connection refused", "Start the API server, or correct its address."),
    (r"name not known", "Correct the host name, or the DNS of the machine of this server."),
    (r"certificate has expired", "Renew the certificate of the API server."),
    (r"not speak TLS|speaks TLS|gRPC port", "Correct the scheme or the port of the address."),
    (
        r"certificate|SSL|TLS",
        "Check the certificate of the API server and the certificate authority configured for it.",
    ),
    (
        r"status 401\b",
        "Renew the credentials that are configured for it: the API server does not accept them.",
    ),
    (
        r"status 403\b",
        "Give the user that is configured for it the ClusterRole system:discovery.",
    ),
    (r"status 404\b", "Correct the address: it is not that of a Kubernetes API server."),
    (r"status 3\d\d\b", "Use the address to which the API server redirects."),
    (
        r"status (429|5\d\d)\b",
        "Look at the log of the API server: it is overloaded or has an error.",
    ),
    (
        r"no whole answer|[Tt]imed? ?out",
        "Check the network and firewalls up to the API server, and its load.",
    ),
    (
        r"[Uu]nreachable|[Nn]o route|reset|[Dd]isconnected",
        "Check the network and firewalls up to the API server.",
    ),
    (
        r"Content-Type|want JSON|want kind|want an object|want a document",
        "Check that the address is that of a Kubernetes API server, and not of a proxy.",
    ),
    (r"not polled yet|no process has polled", "Wait: it will be polled soon."),
)
_OF_FILES = "Correct the file. It is read again when it changes."
_ELSE = "Look at the log of this server, and at that of the API server."


def advice(source: str, error: str) -> str:
    """Return what to do about an error of a source, in one sentence or two; empty without error."""
    if not error:
        return ""
    if source.startswith(("manifests:", "clusters:")):
        return _OF_FILES
    return next((text for pattern, text in _OF_SERVERS if re.search(pattern, error)), _ELSE)
