"""Files are short enough to be read at once."""

from repository import ROOT

FOLDERS = ("service", "clients", "tests", "tools", "benchmarks", "examples")
MAX_LINES = 600


def test_no_file_is_too_long_to_be_read_at_once() -> None:
    sizes = {
        path.relative_to(ROOT): len(path.read_text(encoding="utf-8").splitlines())
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
    }
    assert len(sizes) > 1000
    assert {path: lines for path, lines in sizes.items() if lines > MAX_LINES} == {}
