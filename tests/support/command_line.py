"""Runs the command line in this process."""

from dataclasses import dataclass

import pytest
from apidiscovery_cli.main import main


@dataclass(frozen=True, slots=True)
class Outcome:
    exit_code: int
    stdout: str
    stderr: str


def run(capsys: pytest.CaptureFixture[str], *args: str) -> Outcome:
    """Run `apidiscovery ARGS`."""
    exit_code = main(args)
    captured = capsys.readouterr()
    return Outcome(exit_code, captured.out, captured.err)
