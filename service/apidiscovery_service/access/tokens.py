"""Static bearer tokens, in the format of kube-apiserver's `--token-auth-file`.

Each line has token, user name, user id and, if the user has groups, a quoted list of them. Source:
k8s.io/apiserver pkg/authentication/token/tokenfile/tokenfile.go:NewCSV. Nothing here that can be
shown (errors, warnings, repr) has a token or anything else of a line.
"""

import csv
import hashlib
from collections.abc import Iterator, Mapping

from apidiscovery_service.access import Caller
from apidiscovery_service.errors import InvalidConfiguration

_MIN_COLUMNS = 3
_TOKEN, _USER, _, _GROUPS = range(4)


class Tokens:
    """Whose token is whose.

    Digests are what is compared: how long a look-up takes tells nothing about a token.

    Attributes:
        warnings: What is odd about the file, though it can be used.
    """

    def __init__(
        self, callers: Mapping[bytes, Caller] | None = None, warnings: tuple[str, ...] = ()
    ) -> None:
        self._callers = dict(callers or {})
        self.warnings = warnings

    def caller(self, token: bytes) -> Caller | None:
        """Return whose token this is, None if it is nobody's."""
        return self._callers.get(_digest(token))

    def __len__(self) -> int:
        return len(self._callers)

    def __repr__(self) -> str:
        return f"<Tokens {len(self)}>"


def parse_tokens(content: bytes, file: str) -> Tokens:
    """Read the content of a token file; of two lines with one token the later one counts.

    Args:
        content: UTF-8.
        file: What messages call the file.

    Raises:
        InvalidConfiguration: A line is not as it must be; the message names file and line.
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
            warnings.append(f"{place}: the token is empty, the line is passed over")
            continue
        if not record[_USER]:
            raise InvalidConfiguration(f"{place}: want a user name in column 2, got none")
        digest = _digest(record[_TOKEN].encode())
        if digest in callers:
            warnings.append(f"{place}: an earlier line has the same token, this one counts")
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
    while True:
        try:
            record = next(reader, None)
        except csv.Error as error:
            raise InvalidConfiguration(f"{file}:{reader.line_num}: no CSV: {error}") from None
        if record is None:
            return
        if record:
            yield reader.line_num, record


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
