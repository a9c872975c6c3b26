"""Hooks of mkdocs: pages from the code and from the root of the repository, links, fences.

Pages of `docs` are written for GitHub and for the site. Four things differ on the site:

1. The words after the language of a fence, which tests read, are taken out.
2. Links lead to files of the repository. Those that the site does not have become text.
3. In code in a table GitHub needs a backslash before a bar, and Python-Markdown shows it.
4. `<!-- generated: NAME -->` is replaced by what `site_reference.GENERATED` makes from the code.
"""

import logging
import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from site_reference import GENERATED, python_modules

ROOT = Path(__file__).parents[1]

_ROOT_PAGES = ("README.md", "DESIGN.md", "SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md")
_PYTHON = "reference/python"

_FENCE = re.compile(r"^```(?P<language>\S+) (?P<rest>.+)$", re.MULTILINE)
_FILE = re.compile(r"file=(\S+)")
_LINK = re.compile(
    r"\[(?P<text>[^\]]*)\]\((?![a-z]+:|#)(?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)"
)
_GENERATED = re.compile(r"^<!-- generated: (\S+) -->$", re.MULTILINE)
_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_CODE_IN_TABLE = re.compile(r"(?<=`)[^`\n]*\\\|[^`\n]*(?=`)")

Nav = list[str | dict[str, "str | Nav"]]

_log = logging.getLogger("mkdocs.hooks.site")  # a warning of mkdocs fails a strict build


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace each entry of the navigation that ends in `/*` by the pages of that folder."""
    config.nav = _expanded(cast("Nav", config["nav"]))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the root, a page for each public module, and the examples."""
    for name in _ROOT_PAGES:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for path in sorted((ROOT / "examples").glob("*.py")):
        files.append(File.generated(config, f"examples/{path.name}", abs_src_path=str(path)))
    for module in python_modules(ROOT):
        content = f"# {module}\n\n::: {module}\n"
        files.append(File.generated(config, f"{_PYTHON}/{module}.md", content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the text of a page as the site has it."""
    del config
    markdown = _GENERATED.sub(lambda found: GENERATED[found[1]](ROOT), markdown)
    link = _linker(page, files)
    parts = _FENCED.split(markdown)
    return "".join(
        _FENCE.sub(_fence, part) if part.startswith("```") else _bars(_LINK.sub(link, part))
        for part in parts
    )


def _expanded(entries: Nav) -> Nav:
    return [
        entry if isinstance(entry, str) else {title: _of(value) for title, value in entry.items()}
        for entry in entries
    ]


def _of(value: str | Nav) -> str | Nav:
    if isinstance(value, list):
        return _expanded(value)
    return list(_pages(value.removesuffix("/*"))) if value.endswith("/*") else value


def _pages(folder: str) -> Iterator[str]:
    if folder == _PYTHON:
        yield f"{folder}/README.md"
        yield from (f"{folder}/{module}.md" for module in python_modules(ROOT))
        return
    for path in sorted((ROOT / "docs" / folder).glob("*.md"), key=lambda path: path.name):
        yield f"{folder}/{path.name}"


def _bars(text: str) -> str:
    return _CODE_IN_TABLE.sub(lambda found: found[0].replace("\\|", "|"), text)


def _fence(found: re.Match[str]) -> str:
    name = _FILE.fullmatch(found["rest"])
    return f"```{found['language']}" + (f' title="{name[1]}"' if name else "")


def _linker(page: Page, files: Files) -> Callable[[re.Match[str]], str]:
    """Return what changes a link of a page, from the repository's paths to the site's."""
    uri = page.file.src_uri
    in_repository = uri if uri in _ROOT_PAGES else f"docs/{uri}"
    folder = posixpath.dirname(in_repository)

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, found["target"]))
        wanted = target.removeprefix("docs/") + ("/README.md" if (ROOT / target).is_dir() else "")
        if files.get_file_from_path(wanted) is None:
            if not (ROOT / target).exists():
                _log.warning("%s links to %s, which does not exist", in_repository, target)
            return found["text"] if target in found["text"] else f"{found['text']} (`{target}`)"
        path = posixpath.relpath(wanted, posixpath.dirname(uri)) + (found["anchor"] or "")
        return f"[{found['text']}]({path})"

    return link
