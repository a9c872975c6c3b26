"""Warning header fields: what a request was lenient about.

Sources: k8s.io/apiserver pkg/endpoints/filters/warning.go; k8s.io/apimachinery
pkg/util/net/http.go:NewWarningHeader.
"""

from collections.abc import Iterable

from apidiscovery_service.serving.http.messages import Headers

_MAX_CHARACTERS = 4 * 1024
_MAX_SHORTENED = 256

_NO_AGENT = "299 -"


def warning_headers(texts: Iterable[str]) -> Headers:
    """Return a header field for each text, each text once.

    Texts of together more than 4096 characters are cut to 256 each, and end when there are as many.
    """
    distinct = [text for text in dict.fromkeys(texts) if text]
    if sum(map(len, distinct)) > _MAX_CHARACTERS:
        distinct = list(_shortened(distinct))
    return [
        (b"warning", f"{_NO_AGENT} {_quoted(text)}".encode())
        for text in distinct
        if not any(map(_is_control, text))
    ]


def _shortened(texts: Iterable[str]) -> Iterable[str]:
    written = 0
    for text in texts:
        if written >= _MAX_CHARACTERS:
            return
        yield text[:_MAX_SHORTENED]
        written += min(len(text), _MAX_SHORTENED)


def _quoted(text: str) -> str:
    return '"{}"'.format(text.replace("\\", "\\\\").replace('"', '\\"'))


def _is_control(character: str) -> bool:
    code = ord(character)
    return code < ord(" ") or 0x7F <= code < 0xA0  # noqa: PLR2004 - DEL and C1, as by unicode.IsControl
