"""What tests with kubectl share."""

from pathlib import Path

import programs
import pytest
from command_line import Outcome


@pytest.fixture
def kubectl(tmp_path: Path) -> programs.Kubectl:
    """Return what runs kubectl against a URL, with a cache that no other test shares."""

    def run(url: str, cache: str, *args: str) -> Outcome:
        folder = tmp_path / cache
        folder.mkdir(exist_ok=True)
        return programs.kubectl(folder, "--server", url, *args)

    return run
