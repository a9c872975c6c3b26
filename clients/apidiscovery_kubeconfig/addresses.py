"""Addresses of servers, checked before anything is sent there."""

import re
from urllib.parse import urlsplit

from apidiscovery_kubeconfig.errors import ConfigurationError

WANTED = "want a URL such as https://host:6443, of http or https"

_UNFIT = re.compile(r"[\x00-\x20\x7f]")


def server_url(text: str, where: str) -> str:
    """Return an address without the slash at its end; `where` is for the error.

    Raises:
        ConfigurationError: It is no URL of http or https, or has credentials, a query or a
            fragment. Credentials and queries are not quoted.
    """
    try:
        parts = urlsplit(text)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        raise ConfigurationError(f"{where}: no URL; {WANTED}") from None
    if "@" in parts.netloc:
        raise ConfigurationError(
            f"{where}: there are credentials in the URL; want them in settings of their own"
        )
    if "?" in text or "#" in text:
        # Not quoted: a query may have a token.
        raise ConfigurationError(f"{where}: {WANTED}, without query and fragment")
    if not is_url or _UNFIT.search(text):
        raise ConfigurationError(f"{where}: {WANTED}, got {text!r}")
    return text.rstrip("/")
