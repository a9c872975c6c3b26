"""What all stores say of keys and values in the same way."""

from apidiscovery_service.storage import MAX_VALUE_BYTES

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
