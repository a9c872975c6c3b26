"""Names of processes that hold claims: unique, and honest about who is gone."""

import os
import subprocess
import sys

import pytest
from apidiscovery_service.store import claims
from apidiscovery_service.store.claims import has_ended, own_holder

PRINT = "from apidiscovery_service.store.claims import own_holder; print(own_holder())"

only_linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc")


def held_by_another() -> str:
    """Return the name of a process that has ended."""
    done = subprocess.run([sys.executable, "-c", PRINT], check=True, capture_output=True)  # noqa: S603
    return done.stdout.decode().strip()


def test_names_of_holders_are_unique() -> None:
    assert own_holder() != own_holder()
    assert str(os.getpid()) in own_holder().split()


@only_linux
def test_a_process_that_ended_is_gone_and_this_one_is_not() -> None:
    assert has_ended(held_by_another())
    assert not has_ended(own_holder())


@only_linux
def test_a_reused_process_number_is_another_process() -> None:
    host, scope, _, started, token = held_by_another().split()
    assert has_ended(" ".join((host, scope, str(os.getpid()), started, token)))


@only_linux
@pytest.mark.parametrize(
    "scope", ["", "another-boot/pid:[4026531836]"], ids=["unknown", "another-machine"]
)
def test_processes_of_other_machines_count_as_alive(
    scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = held_by_another()
    monkeypatch.setattr(claims, "_scope", lambda: scope)
    assert not has_ended(gone)


@pytest.mark.parametrize("text", ["", "somebody", "a b c d e", "a b 1", "a b ² d e"])
def test_other_names_count_as_alive(text: str) -> None:
    assert not has_ended(text)
