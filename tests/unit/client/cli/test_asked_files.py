"""Output files are written as a whole; devices, pipes and links are not replaced."""

import os
import stat
import threading
from pathlib import Path

import pytest
from apidiscovery_cli.files import CannotWrite, write_file


def test_a_pipe_gets_what_is_written_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_file(pipe, b"content")
    reader.join(10)
    assert (read, stat.S_ISFIFO(pipe.stat().st_mode)) == ([b"content"], True)
    assert list(tmp_path.iterdir()) == [pipe]


def test_the_target_of_a_link_is_written_and_the_link_stays(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to("target")
    write_file(link, b"first")
    write_file(link, b"second")
    assert (link.is_symlink(), target.read_bytes()) == (True, b"second")


def test_a_circle_of_links_is_an_error(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("link")
    with pytest.raises(CannotWrite, match=r"link cannot be written: "):
        write_file(link, b"")


def test_a_file_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "private"
    path.touch(0o600)
    write_file(path, b"content")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_may_have_the_longest_name(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    write_file(path, b"content")
    assert path.read_bytes() == b"content"


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="this system has no /dev/fd")
def test_an_open_pipe_can_be_named_by_its_descriptor() -> None:
    reader, writer = os.pipe()
    try:
        write_file(Path(f"/dev/fd/{writer}"), b"content")
        assert os.read(reader, 100) == b"content"
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("name", ["folder", "folder/below/file", "file/below"])
def test_a_failed_write_is_an_error_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(CannotWrite, match=f"{name} cannot be written: [A-Z]"):
        write_file(tmp_path / name, b"content")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder"]
