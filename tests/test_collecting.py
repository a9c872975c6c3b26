"""What stays is gone through once, and what is garbage is found all the same."""

import subprocess
import sys

import pytest

TIMEOUT_S = 60.0

# Collections are of a whole process.
BEGIN = """
import gc, weakref
from apidiscovery_service.app.collecting import collect_sparingly

class Node:
    pass

def cycle():
    one = Node()
    one.itself = one
    return one

def work(count):
    for _ in range(count):
        cycle()
"""


def run(program: str) -> None:
    command = [sys.executable, "-c", BEGIN + program]
    done = subprocess.run(  # noqa: S603 - what stands here
        command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr


def test_what_survives_is_set_aside() -> None:
    run("""
collect_sparingly()
before, kept = gc.get_freeze_count(), []
while gc.get_freeze_count() < before + 100_000:
    kept += [cycle() for _ in range(10_000)]
    assert len(kept) < 1_000_000
assert len(gc.get_objects()) < 50_000
""")


def test_what_goes_young_is_collected() -> None:
    run("""
collect_sparingly()
gone = weakref.ref(cycle())
work(100_000)
assert gone() is None
""")


@pytest.mark.parametrize("grown_by", [1, 200_000])
def test_garbage_among_what_was_set_aside_goes_when_memory_has_grown(grown_by: int) -> None:
    run(f"""
held = [cycle() for _ in range(1000)]
collect_sparingly({grown_by})
gone = weakref.ref(held[0])
held.clear()
work(100_000)
assert gone() is not None
more = []
while gone() is not None:
    more += [cycle() for _ in range(10_000)]
    assert len(more) < 5_000_000
""")


def test_told_again_it_collects_once() -> None:
    run("""
collect_sparingly()
collect_sparingly()
assert len(gc.callbacks) == 1
""")
