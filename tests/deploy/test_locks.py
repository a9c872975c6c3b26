"""The three locks fit together, and name no place on the network."""

import re

import pytest
from repository import ROOT

SMALL = ["requirements-build.lock", "requirements-run.lock"]
ALL = [*SMALL, "requirements.lock"]


def pinned(name: str) -> set[str]:
    """Return each requirement of a lock, such as `h11==0.16.0`, without its hashes."""
    return set(re.findall(r"^([\w.-]+==\S+)", (ROOT / name).read_text(), re.MULTILINE))


@pytest.mark.parametrize("small", SMALL)
def test_what_a_small_lock_installs_stays_when_the_large_one_is_added(small: str) -> None:
    assert pinned(small)
    assert pinned(small) <= pinned("requirements.lock")


def test_running_needs_a_quarter_of_the_packages_at_most() -> None:
    assert len(pinned("requirements-run.lock")) <= len(pinned("requirements.lock")) / 4


@pytest.mark.parametrize("name", ALL)
def test_every_requirement_has_a_hash_and_no_lock_an_address(name: str) -> None:
    text = (ROOT / name).read_text()
    assert "://" not in text
    for requirement in re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]:
        assert "--hash=sha256:" in requirement, requirement
