"""Make the pictures of the pages in docs/images from a running `apidiscovery demo`.

Usage:  python tools/screenshots.py [--url http://127.0.0.1:8080]

Without a URL it starts a demo of its own. It needs Chromium.
"""

import argparse
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

REPO = Path(__file__).resolve().parent.parent
IMAGES = REPO / "docs" / "images"
MAX_BYTES = 250_000
_PATIENCE_MS = 60_000
_WIDTH, _HEIGHT = 1200, 760
# By the name of the picture: the page, what must be there first, and the colour scheme.
PICTURES = {
    "ui-home": ("/ui/", "#changes li", "light"),
    "ui-fleet": ("/ui/fleet", "main table", "light"),
    "ui-kind": ("/ui/kinds/apps/v1/Deployment", "main h1", "light"),
    "ui-search": ("/ui/search?q=certificate", "#found .said", "dark"),
}


def main() -> int:
    """Make all pictures; return the exit code."""
    parser = argparse.ArgumentParser(description="Make the pictures of the pages.")
    parser.add_argument("--url", help="of a demo that runs")
    url = parser.parse_args().url
    path = shutil.which("chromium")
    if path is None:
        print("chromium is not installed", file=sys.stderr)
        return 1
    IMAGES.mkdir(exist_ok=True)
    with _demo(url) as base, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(
            viewport={"width": _WIDTH, "height": _HEIGHT}, reduced_motion="reduce"
        )
        page.set_default_timeout(_PATIENCE_MS)
        for name in PICTURES:
            _draw(page, base, name)
        browser.close()
    return 0


def _draw(page: Page, base: str, name: str) -> None:
    path, awaited, scheme = PICTURES[name]
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(base + path)
    page.locator(awaited).first.wait_for()
    file = IMAGES / f"{name}.png"
    page.screenshot(path=file)
    size = file.stat().st_size
    print(f"{file.relative_to(REPO)}: {size:,} bytes")
    if size > MAX_BYTES:
        raise SystemExit(f"{file.name} has {size} bytes, want at most {MAX_BYTES}")


@contextmanager
def _demo(url: str | None) -> Generator[str]:
    """Yield the URL of a demo, which is started and ended unless one is given."""
    if url is not None:
        yield url.rstrip("/")
        return
    command = [str(Path(sys.executable).with_name("apidiscovery")), "demo", "--http", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            found = re.search(r"http://[0-9.:]+", line)
            if found is None:
                raise SystemExit("the demo does not start")
            yield found[0]
        finally:
            process.send_signal(signal.SIGINT)


if __name__ == "__main__":
    sys.exit(main())
