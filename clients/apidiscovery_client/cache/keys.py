"""Keys of caches: one for each server and user."""

import hashlib
import json
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from apidiscovery_kubeconfig.addresses import DEFAULT_PORTS

if TYPE_CHECKING:  # transports of another kind need no such server
    from apidiscovery_client._server import Server


def key(server: str, identity: str = "", *, trust: str = "", route: str = "") -> str:
    """Return 64 hexadecimal digits, from which the arguments cannot be read.

    Any difference gives another key, except in the spelling of a URL: the case of scheme and host,
    the default port, a slash at the end.

    Args:
        server: The URL, or the address of a gRPC server.
        identity: The caller: `Access.identity`.
        trust: The trusted authorities, if `identity` does not include them.
        route: What else decides which server answers, such as the proxy.
    """
    parts = json.dumps(["apidiscovery snapshot", _normalised(server), identity, trust, route])
    return hashlib.sha256(parts.encode()).hexdigest()


def key_of(server: "Server") -> str:
    """Return the key of a configured server; raise `InvalidConfiguration`.

    It includes the proxy and the name in the certificate, since clusters in different private
    networks may have the same address.
    """
    route = json.dumps([server.proxy_url, server.tls_server_name])
    return key(server.url, server.access.identity, route=route)


def _normalised(server: str) -> str:
    if "://" not in server:
        return server
    try:
        url = urlsplit(server)
        port = url.port
    except ValueError:
        return server
    user, at, _ = url.netloc.rpartition("@")
    host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname or ""
    place = host if port in (None, DEFAULT_PORTS.get(url.scheme)) else f"{host}:{port}"
    rest = url._replace(scheme="", netloc="", path=url.path.rstrip("/")).geturl()
    return f"{url.scheme}://{user}{at}{place}{rest}"
