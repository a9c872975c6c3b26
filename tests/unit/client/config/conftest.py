"""What the tests of configuration share."""

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _nothing_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what the machine has for kubectl and for us out of the tests."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in list(os.environ):
        if name.startswith(("APIDISCOVERY_", "KUBE")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
