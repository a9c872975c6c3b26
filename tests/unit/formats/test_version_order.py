"""The order of versions, against Kubernetes' own."""

import doctest
import json
import re

import pytest
from apidiscovery_formats import version_order
from apidiscovery_formats.version_order import kube_aware_key
from hypothesis import given
from hypothesis import strategies as st
from kube_versions import GO_MAX_INT, contract_less
from repository import GOLDEN

# Lists of version names as k8s.io/apimachinery version.CompareKubeAwareVersionStrings sorts them.
# Names that it calls equal (`v1` and `v01`) keep there the order of the input, while ours go by
# name: the lists are compared modulo such ties.
RECORDED = GOLDEN / "versions.json"


def untied(version: str) -> str:
    """Return the one name that stands for all that Kubernetes calls equal to this one."""
    if re.fullmatch(r"v0*[0-9]{1,19}((alpha|beta)0*[0-9]{1,19})?", version):
        return re.sub(r"(?<![0-9])0+(?=[0-9])", "", version)
    return version


def test_lists_are_in_the_order_of_kubernetes_except_for_ties() -> None:
    cases: list[dict[str, list[str]]] = json.loads(RECORDED.read_bytes())
    assert len(cases) == 200
    for case in cases:
        made = sorted(case["in"], key=kube_aware_key)
        assert list(map(untied, made)) == list(map(untied, case["sorted"]))


@pytest.mark.parametrize(
    "descending",
    [
        pytest.param(
            ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2"],
            id="documented",
        ),
        pytest.param(["v1alpha1", "foo1", "foo10", "foo2"], id="the-rest-is-alphabetical"),
        pytest.param(["v1beta2", "v1beta1", "v1alpha9"], id="beta-before-alpha"),
        pytest.param([f"v{GO_MAX_INT}", f"v{GO_MAX_INT + 1}"], id="what-go-cannot-hold-is-last"),
        pytest.param(["v0", f"v1beta{GO_MAX_INT + 1}"], id="what-go-cannot-hold-as-minor-is-last"),
        pytest.param(
            ["v1", "V1", "v", "v1\n", "v1beta", "v1gamma1", "v\u0663"], id="lookalikes-are-last"
        ),
    ],
)
def test_versions_stand_in_this_order(descending: list[str]) -> None:
    upside_down = descending[::-1]
    assert sorted(upside_down, key=kube_aware_key) == descending


def test_doctests_hold() -> None:
    failures, tried = doctest.testmod(version_order)
    assert (failures, tried) == (0, 1)


# --------------------------------------------------------------------------------------------------
# The order is total.

VERSIONS = (
    st.from_regex(r"v[0-9]{1,3}((alpha|beta)[0-9]{1,2})?", fullmatch=True)
    | st.sampled_from(["v1", "v01", "v001", "v1beta1", "v01beta1", "v1beta01", "v1\n", "", "v"])
    | st.text(max_size=4)
)


@given(VERSIONS, VERSIONS)
def test_two_versions_are_equal_only_if_they_have_the_same_name(a: str, b: str) -> None:
    before, after = kube_aware_key(a) < kube_aware_key(b), kube_aware_key(b) < kube_aware_key(a)
    assert before + after == (a != b)


@given(VERSIONS, VERSIONS)
def test_the_order_is_that_of_the_contract(a: str, b: str) -> None:
    if contract_less(a, b):
        assert kube_aware_key(a) < kube_aware_key(b)
