"""Client certificates and static bearer tokens.

Sources: k8s.io/apiserver pkg/authentication/request/x509/x509.go:CommonNameUserConversion: the
common name is the user, each organization a group, and without a common name there is no user;
pkg/authentication/token/tokenfile/tokenfile.go:NewCSV: each line has token, user name, user id and,
if the user has groups, a quoted list of them.
"""

import csv
import hashlib
import ssl
from collections.abc import Iterator, Mapping
from typing import TypeAlias, cast

from apidiscovery_service.access import Caller
from apidiscovery_service.errors import InvalidConfiguration

_Subject: TypeAlias = tuple[tuple[tuple[str, str], ...], ...]

_MIN_COLUMNS = 3
_TOKEN, _USER, _, _GROUPS = range(4)


def certificate_caller(certificate: Mapping[str, object] | None) -> Caller | None:
    """Return the user of a certificate in the form of `ssl.SSLObject.getpeercert()`.

    Returns:
        None without a certificate, or without a common name in it.
    """
    if not certificate:
        return None
    subject = cast("_Subject", certificate.get("subject", ()))
    pairs = [pair for relative_name in subject for pair in relative_name]
    # Of several common names Go takes the last.
    names = [value for name, value in pairs if name == "commonName"]
    if not names or not names[-1]:
        return None
    groups = tuple(value for name, value in pairs if name == "organizationName")
    return Caller(names[-1], groups)


def valid_until(certificate: Mapping[str, object]) -> float:
    """Return the end of a certificate's validity, in seconds of Unix time."""
    return ssl.cert_time_to_seconds(str(certificate["notAfter"]))


class Tokens:
    """The caller of each bearer token.

    Digests are compared, so the time of a look-up reveals nothing about a token. Neither errors nor
    warnings nor `repr` contain a token or any other text of a line.

    Attributes:
        warnings: Oddities of the file, which do not prevent its use.
    """

    def __init__(
        self, callers: Mapping[bytes, Caller] | None = None, warnings: tuple[str, ...] = ()
    ) -> None:
        self._callers = dict(callers or {})
        self.warnings = warnings

    def caller(self, token: bytes) -> Caller | None:
        """Return the caller of a token, None for an unknown one."""
        return self._callers.get(_digest(token))

    def __len__(self) -> int:
        return len(self._callers)

    def __repr__(self) -> str:
        return f"<Tokens {len(self)}>"


def parse_tokens(content: bytes, file: str) -> Tokens:
    """Parse a token file; of two lines with one token the later one counts.

    Args:
        content: UTF-8.
        file: Name of the file in messages.

    Raises:
        InvalidConfiguration: A line is malformed; the message names file and line.
    """
    callers: dict[bytes, Caller] = {}
    warnings: list[str] = []
    for line, record in _records(content, file):
        place = f"{file}:{line}"
        if len(record) < _MIN_COLUMNS:
            raise InvalidConfiguration(
                f"{place}: want at least {_MIN_COLUMNS} columns (token, user name, user id), "
                f"got {len(record)}"
            )
        if not record[_TOKEN]:
            warnings.append(f"{place}: the token is empty, the line is skipped")
            continue
        if not record[_USER]:
            raise InvalidConfiguration(f"{place}: want a user name in column 2, got none")
        digest = _digest(record[_TOKEN].encode())
        if digest in callers:
            warnings.append(f"{place}: an earlier line has the same token, the later line is used")
        groups = tuple(record[_GROUPS].split(",")) if len(record) > _GROUPS else ()
        callers[digest] = Caller(record[_USER], groups)
    return Tokens(callers, tuple(warnings))


def _records(content: bytes, file: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the records that are not empty, each with the line on which it ends."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidConfiguration(f"{file}:{line}: not UTF-8") from None
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
    try:
        for record in reader:
            if record:
                yield reader.line_num, record
    except csv.Error as error:
        raise InvalidConfiguration(f"{file}:{reader.line_num}: no CSV: {error}") from None


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
