"""Renders templates, and loads the style sheet and scripts, whose paths have their hash."""

import hashlib
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from typing import Any, Final

import jinja2
from markupsafe import Markup

from apidiscovery_service.core.source import UPSTREAM
from apidiscovery_service.web.view import CORE, Page, View, group_path, kind_path

ASSETS: Final = "/ui/static/"

_TYPES = {
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
}
_HASH_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as it is sent; `path` has its hash."""

    path: str
    content_type: bytes
    body: bytes


def load_assets() -> Mapping[str, Asset]:
    """Return all assets by file name."""
    found: dict[str, Asset] = {}
    for file in files("apidiscovery_service.web").joinpath("static").iterdir():
        content_type = _TYPES.get(file.name.rpartition(".")[2])
        if content_type is not None:
            body = file.read_bytes()
            digest = hashlib.sha256(body).hexdigest()[:_HASH_DIGITS]
            found[file.name] = Asset(f"{ASSETS}{digest}/{file.name}", content_type, body)
    return found


class Renderer:
    """Renders pages.

    Args:
        assets: The style sheet and the scripts by file name.
        version: Of this software.
    """

    def __init__(self, assets: Mapping[str, Asset], version: str) -> None:
        self._environment = jinja2.Environment(
            loader=jinja2.PackageLoader("apidiscovery_service.web"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        _add(
            self._environment.globals,
            assets={name: asset.path for name, asset in assets.items()},
            core=CORE,
            upstream=UPSTREAM,
            version=version,
        )
        _add(
            self._environment.filters,
            moment=moment,
            plural=plural,
            release=release,
            source_name=source_name,
        )

    def render(self, view: View, page: Page) -> bytes:
        """Return a page as UTF-8; may be called in any thread."""

        def group_url(group: str) -> str:
            return view.root + group_path(group)

        def kind_url(group: str, version: str, kind: str) -> str:
            return view.root + kind_path(group, version, kind)

        template = self._environment.get_template(page.template)
        text = template.render(
            **page.values,
            view=view,
            root=view.root,
            group_url=group_url,
            kind_url=kind_url,
        )
        return text.encode()


def _add(table: MutableMapping[str, Any], **entries: object) -> None:
    """Add entries to a table of jinja2, whose type knows only jinja2's own."""
    table.update(entries)


def moment(when: datetime | str | None) -> Markup:
    """Return a time as an element that a script turns into an age; a dash for None."""
    if not when:
        return Markup("&ndash;")
    text = when if isinstance(when, str) else f"{when:%Y-%m-%dT%H:%M:%SZ}"
    shown = text.replace("T", " ").removesuffix("Z")
    return Markup('<time datetime="{}" title="{} UTC">{} UTC</time>').format(text, shown, shown)


def source_name(name: str) -> str:
    """Return a source as people call it: `cluster east` for `upstream:east`."""
    return f"cluster {cluster}" if (cluster := name.removeprefix(UPSTREAM)) != name else name


def release(version: str) -> Markup:
    """Return the version of a server without its build, which follows a `+` and is a title."""
    if not version:
        return Markup("version not known")
    return Markup('<span title="{}">{}</span>').format(version, version.partition("+")[0])


def plural(number: int, one: str, several: str = "") -> str:
    """Return a number with a noun, such as `1 group` and `2 groups`."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"
