"""The programs of docs/releases.md print what the page shows."""

import re
import subprocess
import sys

import pytest
from repository import ROOT

PAGE = (ROOT / "docs" / "releases.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("program", "shown"), PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_of_the_page_prints_what_it_shows(program: str, shown: str) -> None:
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(  # noqa: S603 - our own interpreter
        command, check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", shown)


def test_every_program_of_the_page_is_run() -> None:
    assert len(PROGRAMS) == PAGE.count("```python") == 2
