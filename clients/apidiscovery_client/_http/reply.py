"""Answers of HTTP servers, and the texts of errors."""

import re
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from apidiscovery_client._errors import RequestRefused, UnexpectedDocument
from apidiscovery_client._http import wrong_port
from apidiscovery_client._reading.parsed import UnreadableError, status_message

_WARNING = re.compile(r'([0-9]{3}) \S+ "((?:[^"\\]|\\.)*)"')
_MISCELLANEOUS, _RESPONSE_IS_STALE = "299", "110"  # RFC 7234, 5.5
# Paths of our service below which there are clusters and views.
_PART = re.compile(r"^/(cluster|view)s/(.+)$")
MAX_BODY_BYTES = 64 << 20  # uncompressed; 3 000 groups of five resources are 18 MB indented
MAX_CONCURRENT_REQUESTS = 16
MAX_RETRIES = 10  # client-go rest/request.go `maxRetries`
MAX_RETRY_AFTER_S = 5  # a longer wait is reported as an error instead
_MAX_MESSAGE_CHARACTERS = 1000
_SERVER_ERRORS = 500

NO_API_SERVER = "there is no /apis, so this is not an API server"
WEB_PAGE = "the server returned a web page: it is not an API server, or behind a sign-in page"

# client-go api/errors/errors.go `NewGenericServerResponse`: for answers that are not a Status.
_STATUS_MESSAGES: Mapping[int, str] = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    403: "the server does not allow access to the requested resource",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    406: "the server was unable to respond with a content type that the client supports",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, "
    "but may still be processing the request",
}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server answered, whatever its status.

    Attributes:
        url: Of the request.
        headers: Names in lower case.
        body: Decompressed.
        tried_s: How long the request was repeated before the request timeout ended it; 0 where it
            was not repeated, or not until the timeout.
        refused: Which credentials a 401 refused; empty for other answers.
    """

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    tried_s: float = 0
    refused: str = ""

    @property
    def retry_after_s(self) -> int | None:
        """Return when to ask again, in seconds, if a 429 or 5xx asks for a short enough wait.

        Source: client-go rest/with_retry.go `checkWait`: whole seconds only, no dates.
        """
        is_busy = self.status == HTTPStatus.TOO_MANY_REQUESTS or self.status >= _SERVER_ERRORS
        wait = self.headers.get("retry-after", "")
        if not is_busy or not re.fullmatch(r"[0-9]{1,9}", wait):
            return None
        return int(wait) if int(wait) <= MAX_RETRY_AFTER_S else None

    def read(self, reader: Callable[[str | None, bytes], T]) -> T:
        """Return what `reader` makes of a 200; raise `RequestRefused`, `UnexpectedDocument`."""
        if self.status != HTTPStatus.OK:
            in_vain = f"; no other answer within {self.tried_s:g} s" if self.tried_s else ""
            why = f"; {self.refused}" if self.refused else ""
            raise RequestRefused(
                f"{self._refusal()}{in_vain}{why}", url=self.url, status=self.status
            )
        try:
            return reader(self.headers.get("content-type"), self.body)
        except UnreadableError as error:
            about = f"{WEB_PAGE}: " if self.is_page else ""
            raise UnexpectedDocument(f"{about}{error}", url=self.url) from None

    def warnings(self) -> list[str]:
        """Return the texts of warnings beside the answer, without escapes.

        Source: apimachinery pkg/util/net/http.go `ParseWarningHeaders`; of code 299 alone, as
        client-go rest/warnings.go `handleWarnings`.
        """
        return [
            re.sub(r"\\(.)", r"\1", text)
            for code, text in self._coded_warnings()
            if code == _MISCELLANEOUS
        ]

    @property
    def stale_reason(self) -> str:
        """Return why the server marks the answer as an old one; empty where it does not.

        Source: RFC 7234, 5.5.1 (110, "Response is Stale"). The reason is in the other warnings.
        """
        if all(code != _RESPONSE_IS_STALE for code, _text in self._coded_warnings()):
            return ""
        return "; ".join(self.warnings()) or "the server marks its answer as stale"

    def _coded_warnings(self) -> list[tuple[str, str]]:
        return _WARNING.findall(self.headers.get("warning", ""))

    @property
    def is_page(self) -> bool:
        """Whether it is a page for people to read."""
        return self.headers.get("content-type", "").lower().startswith("text/html")

    def _refusal(self) -> str:
        if location := self.headers.get("location"):
            return f"redirects are not followed, this one is to {location}"
        if self.status == HTTPStatus.BAD_REQUEST and (
            problem := wrong_port.of_refusal(self.body, self.url)
        ):
            return problem
        said = " ".join(status_message(self.body)[:_MAX_MESSAGE_CHARACTERS].split())
        if not said and self.status == HTTPStatus.NOT_FOUND:
            if self.url.endswith("/apis"):
                return _no_api_server(self.url.removesuffix("/apis"))
            if self.is_page:
                return WEB_PAGE
        return said or _STATUS_MESSAGES.get(
            self.status, f"the server gave no reason ({_phrase(self.status)})"
        )


def _no_api_server(server: str) -> str:
    """Return what may be wrong with the URL of a server that has no `/apis`."""
    root, _, last = server.rpartition("/")
    if last in ("api", "apis"):
        return f"{NO_API_SERVER}; leave /{last} out of its URL: {root}"
    if found := _PART.search(urlsplit(server).path):
        return f"the server shows us no {found[1]} {unquote(found[2])!r}"
    return NO_API_SERVER


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return str(status)


def why_unreachable(error: BaseException, url: str) -> str:
    """Return why there was no answer, by the innermost error that is recognized."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ConnectionRefusedError):
            return (
                f"the connection to the server {urlsplit(url).netloc} was refused"
                " - did you specify the right host or port?"
            )
        if isinstance(cause, socket.gaierror):
            return f"GET {url}: name not known: {urlsplit(url).hostname}"
        if problem := _tls_problem(cause, url) or wrong_port.of_error(str(cause)):
            return f"GET {url}: {problem}"
        cause = cause.__cause__ or cause.__context__
    return f"GET {url}: {str(error) or type(error).__name__}"


def _tls_problem(error: BaseException, url: str) -> str:
    """Return the text of a TLS error; empty for other errors."""
    if "ssl" not in sys.modules:
        return ""
    import ssl  # noqa: PLC0415 - already loaded; plain HTTP does without it

    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server's certificate is not trusted: {error.verify_message}"
    if not isinstance(error, ssl.SSLError):
        return ""
    return wrong_port.of_tls(error.reason, url) or f"TLS failed: {error.reason or error}"
