"""URLs of servers, and the proxies on the way to them by the rules of Go's HTTP client.

Source of the proxy rules: golang.org/x/net http/httpproxy `FromEnvironment`, `config.proxyForURL`,
`config.useProxy`.
"""

import ipaddress
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from apidiscovery_kubeconfig.errors import ConfigurationError

WANTED = "want a URL such as https://host:6443, of http or https"

DEFAULT_PORTS = {"http": 80, "https": 443}

_UNFIT = re.compile(r"[\x00-\x20\x7f]")


def server_url(text: str, where: str) -> str:
    """Return the URL of a server without a trailing slash; `where` is for the error.

    Raises:
        ConfigurationError: It is not a URL of http or https, or has credentials, a query or a
            fragment. The message quotes neither credentials nor queries.
    """
    try:
        parts = urlsplit(text)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        # Not quoted where it may have credentials.
        got = "" if any(each in text for each in "@?#") else f", got {text!r}"
        raise ConfigurationError(f"{where}: {WANTED}{got}") from None
    if "@" in parts.netloc:
        raise ConfigurationError(
            f"{where}: there are credentials in the URL; want them in settings of their own"
        )
    if "?" in text or "#" in text:
        # Not quoted: a query may contain a token.
        raise ConfigurationError(f"{where}: {WANTED}, without query and fragment")
    if not is_url or _UNFIT.search(text):
        raise ConfigurationError(f"{where}: {WANTED}, got {text!r}")
    return text.rstrip("/")


def environment_proxy(url: str, environ: Mapping[str, str]) -> str | None:
    """Return the URL of the proxy for a server by the environment, or None.

    Raises:
        ConfigurationError: It is not usable; the message names the variable.
    """
    upper = f"{urlsplit(url).scheme.upper()}_PROXY"
    name = next((name for name in (upper, upper.lower()) if environ.get(name)), None)
    if name is None or (upper == "HTTP_PROXY" and "REQUEST_METHOD" in environ):
        return None  # HTTP_PROXY may be the header `Proxy` of a CGI request
    return proxy_of_variable(name, url, environ)


def proxy_of_variable(name: str, url: str, environ: Mapping[str, str]) -> str | None:
    """Return the URL of the proxy that a variable names, or None if it is not for a server.

    Raises:
        ConfigurationError: It is not usable; the message names the variable.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme]
    exceptions = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if is_loopback(host) or is_excepted(host, port, exceptions):
        return None
    return proxy_url(environ[name], name)


def proxy_url(text: str, where: str) -> str:
    """Return the URL of a proxy, with a scheme; `where` is for the error.

    Raises:
        ConfigurationError: It is not a URL, or of an unsupported kind. The message does not quote
            passwords.
    """
    full = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(full)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
        parts = urlsplit("")
    if parts.scheme.startswith("socks"):
        raise ConfigurationError(
            f"{where}: SOCKS proxies are not supported, want http:// or https://"
        )
    if parts.scheme not in DEFAULT_PORTS or not host:
        raise ConfigurationError(f"{where}: want a URL such as http://proxy.example.com:3128")
    return full


def without_password(url: str) -> str:
    """Return scheme, host and port of a URL, which may be shown."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def is_excepted(host: str, port: int, exceptions: str) -> bool:
    """Return whether NO_PROXY lists a host.

    Entries are separated by commas. Each is `*`, an IP address, a CIDR block, or a domain; a port
    restricts it to that port. `example.com` matches itself and subdomains, `.example.com` and
    `*.example.com` match subdomains only.
    """
    entries = [entry.strip().lower() for entry in exceptions.split(",")]
    return any(_matches(host.lower().rstrip("."), port, entry) for entry in entries if entry)


def _matches(host: str, port: int, entry: str) -> bool:
    if entry == "*":
        return True
    address = _address(host)
    if "/" in entry:
        return address is not None and _in_block(address, entry)
    name, entry_port = _split_port(entry)
    if entry_port and entry_port != str(port):
        return False
    if (entry_address := _address(name)) is not None:
        return entry_address == address
    if address is not None:
        return False
    domain = name.removeprefix("*").removeprefix(".")
    is_subdomains_only = name.startswith((".", "*."))
    return host.endswith(f".{domain}") or (host == domain and not is_subdomains_only)


def _split_port(entry: str) -> tuple[str, str]:
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    if entry.count(":") == 1:
        name, _, port = entry.partition(":")
        return name, port
    return entry, ""


def _in_block(address: ipaddress.IPv4Address | ipaddress.IPv6Address, block: str) -> bool:
    try:
        return address in ipaddress.ip_network(block, strict=False)
    except ValueError:
        return False


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine: `localhost`, or a loopback address."""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def stays_secret(url: str, proxy: str | None) -> bool:
    """Return whether requests to a server are safe from readers on the network.

    They are with TLS, and on this machine.

    Args:
        url: The server.
        proxy: The configured proxy, which reads requests without TLS where it is another machine.
            A proxy of the environment is never used for this machine.
    """
    parts = urlsplit(url)
    if parts.scheme == "https":
        return True
    hops = (url, proxy) if proxy else (url,)
    return all(is_loopback(urlsplit(one).hostname or "") for one in hops)
