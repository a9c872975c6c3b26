"""Checks of keys, values and conditions that all stores share."""

from collections.abc import Callable

from apidiscovery_service.store import (
    ABSENT,
    MAX_VALUE_BYTES,
    Conflict,
    Entry,
    Fenced,
    Guard,
    Guards,
    guards_of,
)

_GREATEST = "\U0010ffff"
_FIRST_SURROGATE, _AFTER_SURROGATES = 0xD800, 0xE000


def prefix_end(prefix: str) -> str:
    r"""Return the first text after all texts with a prefix, empty when there is none.

    Texts are ordered by code points, which is the order of their UTF-8.

    >>> prefix_end("claims/")
    'claims0'
    """
    shortened = prefix.rstrip(_GREATEST)
    if not shortened:
        return ""
    last = ord(shortened[-1]) + 1
    return shortened[:-1] + chr(_AFTER_SURROGATES if last == _FIRST_SURROGATE else last)


def check_size(key: str, value: bytes) -> None:
    """Check the size of a value.

    Raises:
        ValueError: It is above MAX_VALUE_BYTES.
    """
    if len(value) > MAX_VALUE_BYTES:
        raise ValueError(
            f"{key}: the value has {len(value)} bytes, at most {MAX_VALUE_BYTES} can be stored"
        )


def check_conditions(
    key: str, expected: int | None, guard: Guards, find: Callable[[str], Entry | None]
) -> Entry | None:
    """Check the conditions of a write, and return the current entry of its key.

    Args:
        key: The key.
        expected: The revision that the key must have, 0 for no entry; None for any.
        guard: Further conditions.
        find: Returns the entry of a key.

    Raises:
        Fenced: A guard does not hold.
        Conflict: The key has another revision than expected.
    """
    for condition in guards_of(guard):
        check_guard(key, condition, found.created if (found := find(condition.key)) else ABSENT)
    before = find(key)
    revision = before.revision if before else 0
    if expected is not None and expected != revision:
        raise Conflict(key, revision)
    return before


def check_guard(key: str, guard: Guard, created: int) -> None:
    """Check a guard against the revision at which its key was created.

    Raises:
        Fenced: It does not hold.
    """
    if created == guard.created:
        return
    if guard.created == ABSENT:
        raise Fenced(f"{key}: {guard.key} is there since {created}", guard)
    raise Fenced(f"{key}: {guard.key} is no longer held since {guard.created}", guard)
