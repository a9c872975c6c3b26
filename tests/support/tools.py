"""Programs that some tests need and the project does not install."""

import os
import shutil

import pytest


def find_tool(name: str) -> str:
    """Return the path of a program; without it skip the test, and on CI (`CI=true`) fail it."""
    found = shutil.which(name)
    if found is None and os.environ.get("CI") == "true":
        pytest.fail(f"{name} is not installed")
    return found or pytest.skip(f"{name} is not installed")


def find_browser() -> str:
    """Return the path of Chromium without windows, or else of Debian's whole Chromium.

    The engine is the same. Each context of the whole one opens a window, which takes 3 s of CPU.
    """
    return shutil.which("chromium-headless-shell") or find_tool("chromium")
