"""Short texts that match patterns of schemas.

Patterns are those of strangers, so that Python's `re` could take for ever: automata decide.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from apidiscovery_client.schema_diff.patterns import UndecidableError, find_string, matches

MAX_LENGTH: Final = 1000
"""Characters of a text; of a schema that asks for more there is no example."""

_BY_FORMAT = {
    "byte": "ZXhhbXBsZQ==",
    "cidr": "10.0.0.0/24",
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "duration": "10s",
    "email": "someone@example.com",
    "hostname": "example.com",
    "ipv4": "10.0.0.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
# Texts that look natural; others are made for patterns that none of these matches.
_COMMON = (
    "example",
    "example.com",
    "https://example.com",
    "1",
    "10s",
    "1h0m0s",
    "1Gi",
    "/example",
    "v1",
    "v1.0.0",
    "Example",
    "example.com/example",
    "10.0.0.1",
    "10.0.0.0/24",
    "2026-01-31T12:00:00Z",
    "true",
    "AQ==",
)


def matching(patterns: Sequence[str], kind: str, least: int, most: int) -> str | None:
    """Return a text that is of a format and has a length; None if no pattern lets it be found.

    Args:
        patterns: All of them have a match in it.
        kind: The format; empty for any.
        least: The least number of characters.
        most: The greatest.
    """
    # Groups that are not captured match the same as those that are; only the latter are read.
    plain = [pattern.replace("(?:", "(") for pattern in patterns]
    candidates = (_BY_FORMAT[kind],) if kind in _BY_FORMAT else _COMMON
    for candidate in candidates:
        for found in _of_length(candidate, least, most):
            if all(matches(pattern, found) for pattern in plain):
                return found
    try:
        return find_string(plain, least=least, most=most)
    except UndecidableError:
        return None


def _of_length(candidate: str, least: int, most: int) -> Iterator[str]:
    """Yield texts of a length that are made from one."""
    if least > MAX_LENGTH:
        return
    if len(candidate) >= least:
        yield candidate[:most]
    else:
        yield (candidate * (least // len(candidate) + 1))[:least]
        yield candidate + candidate[-1] * (least - len(candidate))
