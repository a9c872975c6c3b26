"""A small file system that can be filled."""

import os
import subprocess
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest


class NoSmallDisk(Exception):
    """No file system can be mounted here; the text says why."""


class SmallDisk:
    """A file system of a few MiB.

    Attributes:
        folder: The mount point.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Fill it to the last byte."""
        with self._filler.open("wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                with suppress(OSError):
                    while file.write(bytes(size)):
                        pass

    def free(self) -> None:
        """Remove the file of `fill`."""
        self._filler.unlink()


@contextmanager
def mounted_disk(folder: Path, size: str) -> Generator[SmallDisk]:
    """Mount a tmpfs of a size on a folder.

    Raises:
        NoSmallDisk: That is not possible here.
    """
    if os.geteuid() != 0:
        raise NoSmallDisk("only root may mount a small disk")
    folder.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, check=False, capture_output=True, text=True)  # noqa: S603 - our own arguments
    if mounted.returncode:
        raise NoSmallDisk(f"no small disk can be mounted: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S603, S607 - the same


@contextmanager
def small_disk(folder: Path) -> Generator[SmallDisk]:
    """Mount a disk; skip the test where that is not possible."""
    with ExitStack() as stack:
        try:
            disk = stack.enter_context(mounted_disk(folder, "4m"))
        except NoSmallDisk as error:
            pytest.skip(str(error))
        yield disk
