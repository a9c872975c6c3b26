"""Names of registrations and owners: DNS subdomains, as RFC 1123 has them."""

from apidiscovery_service.kube.objects.formats import is_dns_subdomain

MAX_CHARACTERS = 253


def wrong_name(name: str) -> str | None:
    """Say what is wrong with a name; None if it is a DNS subdomain."""
    if not name:
        return "required"
    if len(name) > MAX_CHARACTERS:
        return f"want at most {MAX_CHARACTERS} characters, got {len(name)}"
    if not is_dns_subdomain(name):
        return f"want a DNS subdomain in lower case, such as east.example.com, got {name!r}"
    return None
