"""Names of registrations and owners: DNS subdomains, as RFC 1123 has them."""

import re

MAX_CHARACTERS = 253

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")


def wrong_name(name: str) -> str | None:
    """Say what is wrong with a name; None if it is a DNS subdomain."""
    if not name:
        return "required"
    if len(name) > MAX_CHARACTERS:
        return f"want at most {MAX_CHARACTERS} characters, got {len(name)}"
    if not _SUBDOMAIN.fullmatch(name):
        return f"want a DNS subdomain in lower case, such as east.example.com, got {name!r}"
    return None
