"""Names of a group without a dispute are given as those of one with a dispute are."""

from typing import TypeAlias

import pytest
from apidiscovery_service.sources.crds import names as crd_names
from apidiscovery_service.sources.crds.model import (
    Condition,
    CrdVersion,
    CustomResourceDefinition,
    Names,
    StatedStatus,
)
from hypothesis import given
from hypothesis import strategies as st

Crds: TypeAlias = list[CustomResourceDefinition]

_WORDS = st.sampled_from("abcdefghijklmnop")
_NAMES = st.builds(
    Names,
    plural=_WORDS,
    singular=_WORDS,
    kind=_WORDS,
    list_kind=_WORDS,
    short_names=st.lists(_WORDS, max_size=2).map(tuple),
    categories=st.sampled_from([(), ("all",)]),
)
_CONDITIONS = st.lists(
    st.builds(
        Condition,
        type=st.sampled_from([crd_names.ESTABLISHED, crd_names.NAMES_ACCEPTED]),
        status=st.sampled_from(["True", "False"]),
        since=st.sampled_from(["", "2026-01-01T00:00:00Z"]),
    ),
    max_size=2,
).map(tuple)
_STATED = st.none() | st.builds(
    StatedStatus,
    accepted=st.none() | _NAMES,
    conditions=_CONDITIONS,
    final=st.booleans(),
)


@st.composite
def _groups(draw: st.DrawFn) -> Crds:
    """Return definitions of a group, many of which have the names that they say they have."""
    crds: Crds = []
    for number in range(draw(st.integers(0, 4))):
        names, stated = draw(_NAMES), draw(_STATED)
        if stated is not None and draw(st.booleans()):
            conditions, final = stated.conditions, stated.final
            stated = StatedStatus(names, conditions, final=final)
        crds.append(
            CustomResourceDefinition(
                name=f"{number}.example.com",
                group="example.com",
                scope="Cluster",
                names=names,
                versions=(CrdVersion("v1", served=True, storage=True),),
                packed=b"",
                created=draw(st.sampled_from(["", "2026-01-01T00:00:00Z"])),
                terminating=draw(st.booleans()),
                stated=stated,
            )
        )
    return crds


@given(_groups())
def test_without_a_dispute_the_result_is_the_same(crds: Crds) -> None:
    quickly = crd_names.statuses(crds)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crd_names, "_is_undisputed", _never)
        slowly = crd_names.statuses(crds)
    assert quickly == slowly
    assert list(quickly) == list(slowly)


def _never(_: object) -> bool:
    return False
