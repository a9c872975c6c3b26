"""The forms of all reports: their names, and safe text for each of them."""

import json
from collections.abc import Iterable
from typing import Literal, TypeAlias

from apidiscovery_client._terminal import printable

API_VERSION = "apidiscovery/v1"

Format: TypeAlias = Literal["text", "json", "markdown"]
FORMATS: tuple[Format, ...] = ("text", "json", "markdown")

# Markup of Markdown in the middle of a line.
_MARKDOWN = str.maketrans({char: f"\\{char}" for char in "\\`*_[]<>|#"})


def lines_text(lines: Iterable[str]) -> str:
    """Return lines, each of which ends with a line feed."""
    return "".join(f"{line}\n" for line in lines)


def json_text(document: object) -> str:
    """Return JSON, indented, that ends with a line feed."""
    return json.dumps(document, indent=2) + "\n"


def markdown_text(paragraphs: Iterable[str]) -> str:
    """Return paragraphs, with an empty line between them."""
    return "\n\n".join(paragraphs) + "\n"


def doubts_markdown(title: str, doubts: Iterable[tuple[str, str]]) -> list[str]:
    """Return a section that lists subjects with reasons; nothing for none."""
    items = [f"- `{code(subject)}`: {escaped(reason)}" for subject, reason in doubts]
    return [title, "\n".join(items)] if items else []


def doubts_json(doubts: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Return subjects with reasons as JSON."""
    return [{"subject": subject, "reason": reason} for subject, reason in doubts]


def escaped(text: str) -> str:
    """Return text for a line of Markdown, without markup."""
    return printable(text).translate(_MARKDOWN)


def code(text: str) -> str:
    """Return text for a code span, without the backquotes that would end it."""
    return printable(text).replace("`", "'")
