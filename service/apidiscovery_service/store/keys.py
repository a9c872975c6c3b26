"""What all stores say of keys and values in the same way."""

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
    r"""Return the least text above all that begins with a prefix, empty when there is none.

    Texts are in order of their code points, which is the order of their UTF-8.

    >>> prefix_end("claims/")
    'claims0'
    """
    kept = prefix.rstrip(_GREATEST)
    if not kept:
        return ""
    last = ord(kept[-1]) + 1
    return kept[:-1] + chr(_AFTER_SURROGATES if last == _FIRST_SURROGATE else last)


def check_size(key: str, value: bytes) -> None:
    """Refuse a value that is too large for some store.

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
    """Return what stands under a key if it may be written.

    Args:
        key: Where.
        expected: The revision that must stand there, 0 for none; None for whatever does.
        guard: What must hold besides.
        find: Gives what stands under a key.

    Raises:
        Fenced: A guard does not hold.
        Conflict: Another revision than expected stands there.
    """
    for condition in guards_of(guard):
        check_guard(key, condition, found.created if (found := find(condition.key)) else ABSENT)
    before = find(key)
    revision = before.revision if before else 0
    if expected is not None and expected != revision:
        raise Conflict(key, revision)
    return before


def check_guard(key: str, guard: Guard, created: int) -> None:
    """Refuse a write unless what stands under the guard's key has been there since then.

    Raises:
        Fenced: It has not.
    """
    if created == guard.created:
        return
    if guard.created == ABSENT:
        raise Fenced(f"{key}: {guard.key} is there since {created}", guard)
    raise Fenced(f"{key}: {guard.key} is no longer held since {guard.created}", guard)
