"""Descriptions of strangers as HTML: a subset of Markdown, without anything that could harm.

No HTML, no images, no headings; links lead to http and https only. Characters that turn the
direction of text, or cannot be seen, are shown as escapes.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup, escape

SHORT: Final = 480
"""Characters of a description that is shown with others."""

LONG: Final = 20_000
"""Characters of a description that is shown by itself; the rest of one that is longer is not."""

# Controls but tab and line feed; marks, embeddings, overrides and isolates of bidirectional text
# (https://www.unicode.org/reports/tr9/#Directional_Formatting_Characters); zero-width characters.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_URL = re.compile(r"https?://[^\s<>\"'`]*[^\s<>\"'`.,;:!?)\]}]", re.IGNORECASE)
_SENTENCE = re.compile(r"[.!?](?=\s)|\n\n")
_OFF = ["image", "html_block", "html_inline", "heading", "lheading", "reference", "hr"]
_REL = "noopener nofollow"


def visible_text(text: str) -> str:
    r"""Return text in which unseen and turning characters are escapes.

    >>> visible_text("a\u202eb")
    'a\\u202eb'
    """
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text.replace("\r\n", "\n"))


def is_short(text: str) -> bool:
    """Return whether a description is shown as a whole among others."""
    return len(text) <= SHORT


def short(text: str) -> Markup:
    """Return the begin of a description, up to the end of a sentence where there is one."""
    if is_short(text):
        return whole(text)
    begin = text[:SHORT]
    ends = [found.start() + 1 for found in _SENTENCE.finditer(begin)]
    if ends and ends[-1] > SHORT // 3:
        return whole(f"{begin[: ends[-1]]} …")
    return whole(f"{begin.rpartition(' ')[0] or begin} …")


def whole(text: str) -> Markup:
    """Return a description of at most `LONG` characters, and how many more it has."""
    if len(text) <= LONG:
        return _rendered(text) if len(text) <= SHORT else _html(text)
    left_out = f"{len(text) - LONG:,} more characters are not shown."
    return _html(text[:LONG]) + Markup("<p>{}</p>").format(left_out)


def _html(text: str) -> Markup:
    return Markup(_markdown.render(visible_text(text)))  # noqa: S704 - made of escaped text


@lru_cache(maxsize=4096)
def _rendered(text: str) -> Markup:
    return _html(text)


class _Renderer(RendererHTML):
    """Renders links without a referrer, and addresses in text as links."""

    def text(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        del options
        content = tokens[idx].content
        return str(escape(content) if env.get("in_link") else _linked(content))

    def link_open(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        env["in_link"] = True
        tokens[idx].attrSet("rel", _REL)
        return self.renderToken(tokens, idx, options, env)

    def link_close(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        env["in_link"] = False
        return self.renderToken(tokens, idx, options, env)


class _Markdown(MarkdownIt):
    """Reads the subset."""

    def __init__(self) -> None:
        super().__init__("commonmark", {"html": False}, renderer_cls=_Renderer)
        self.disable(_OFF)

    def validateLink(self, url: str) -> bool:  # noqa: N802 - overridden
        return url.startswith(("http://", "https://"))


def _linked(text: str) -> Markup:
    pieces: list[Markup] = []
    end = 0
    for found in _URL.finditer(text):
        link = Markup('<a href="{0}" rel="{1}">{0}</a>').format(found[0], _REL)
        pieces += escape(text[end : found.start()]), link
        end = found.end()
    return Markup("").join([*pieces, escape(text[end:])])


_markdown = _Markdown()
