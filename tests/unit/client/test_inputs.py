"""Files that a user names are read whole or refused for their size, also endless ones."""

import io
import os
import sys
import threading
from pathlib import Path

import pytest
from apidiscovery_cli.files import UnusableFile, read_input


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("some.json")


@pytest.mark.parametrize("size", [0, 10])
def test_input_within_the_limit_is_read_whole(
    path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    content = b"x" * size
    path.write_bytes(content)
    assert read_input("some.json", 10) == content
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert read_input("-", 10) == content


@pytest.mark.parametrize("size", [11, 1000])
def test_input_over_the_limit_is_refused_with_its_size(
    path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    path.write_bytes(b"x" * size)
    with pytest.raises(UnusableFile, match=rf"^some\.json: it has {size} bytes, more than 10$"):
        read_input("some.json", 10)
    with path.open() as text, monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", text)
        said = rf"^standard input: it has {size} bytes, more than 10$"
        with pytest.raises(UnusableFile, match=said):
            read_input("-", 10)


def test_the_size_of_a_pipe_is_a_lower_bound(path: Path) -> None:
    os.mkfifo(path)
    writing = threading.Thread(target=path.write_bytes, args=[b"x" * 1000], daemon=True)
    writing.start()
    said = r"^some\.json: it has at least 11 bytes, more than 10$"
    with pytest.raises(UnusableFile, match=said):
        read_input("some.json", 10)
    writing.join(10)
