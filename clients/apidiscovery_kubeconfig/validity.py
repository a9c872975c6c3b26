"""The end of the validity of certificates; `ssl` has it only for those that it has verified."""

import binascii
import re
from base64 import b64decode
from datetime import UTC, datetime

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)

_SEQUENCE, _VERSION, _UTC_TIME = 0x30, 0xA0, 0x17
_LONG_FORM = 0x80


def valid_until(certificate: bytes) -> datetime | None:
    """Return the end of a certificate's validity, in UTC; None for what cannot be read.

    Args:
        certificate: DER, or PEM, of which the first certificate counts.

    Source: RFC 5280 section 4.1, `TBSCertificate` and `Validity`.
    """
    try:
        if found := _PEM.search(certificate):
            certificate = b64decode(found[1])
        signed = _fields(_only(_only(certificate, _SEQUENCE), _SEQUENCE, first=True))
        # Of the fields, the version is optional; then serial number, signature, issuer, validity.
        validity = signed[4 if signed[0][0] == _VERSION else 3]
        tag, text = _fields(validity[1])[1]
        written = text.decode("ascii")
        if tag == _UTC_TIME:  # with two digits of the year, up to 2049
            written = ("19" if written >= "50" else "20") + written
        return datetime.strptime(written, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
    except (IndexError, ValueError, binascii.Error):
        return None


def _fields(content: bytes) -> list[tuple[int, bytes]]:
    """Return the tag and the content of each value, in order."""
    found: list[tuple[int, bytes]] = []
    while content:
        tag, size, start = content[0], content[1], 2
        if size >= _LONG_FORM:
            start += size - _LONG_FORM
            size = int.from_bytes(content[2:start])
        if len(content) < start + size:
            raise ValueError("the value is cut off")
        found.append((tag, content[start : start + size]))
        content = content[start + size :]
    return found


def _only(content: bytes, tag: int, *, first: bool = False) -> bytes:
    found = _fields(content)
    if found[0][0] != tag or not (first or len(found) == 1):
        raise ValueError("want a sequence")
    return found[0][1]
