"""The fake API server chooses as kube-apiserver does."""

import pytest
from apidiscovery_client.testing import _negotiating
from apidiscovery_service import media_type
from apidiscovery_service.errors import NotAcceptable
from hypothesis import given
from hypothesis import strategies as st

GOOD = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
PIECES = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "*/*",
    "application/*",
    "*",
    "text/html",
    "*/json",
    "a/b/c",
    "application/",
    " application/json ",
    ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    ";g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
    ";as=APIGroupDiscoveryList",
    ";v=v2",
    ";q=0.5",
    ";q=0",
    ";q=x",
    ";q= 1",
    ";q=nan",
    ";stream=watch",
    ";stream=x",
    ";sv=1",
    ";pretty=1",
    ";profile=nopeer",
    ";g==x",
    ";",
    ",",
]


@given(
    st.lists(st.sampled_from(PIECES), max_size=40).map("".join),
    st.sampled_from([(), ("v2",), ("v2beta1",), ("v2", "v2beta1")]),
)
def test_it_chooses_what_the_service_chooses(accept: str, versions: tuple[str, ...]) -> None:
    """The service has been compared with kube-apiserver."""
    try:
        expected = media_type.negotiate(accept, versions)
    except NotAcceptable:
        assert _negotiating.negotiate(accept, versions) is None
        return
    chosen = _negotiating.negotiate(accept, versions)
    assert chosen is not None
    assert chosen.content_type == expected.content_type
    assert chosen.is_pretty == expected.pretty


@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join))
def test_go_restful_lets_the_same_through(accept: str) -> None:
    produced = [serializer.media_type for serializer in media_type.SERIALIZERS]
    expected = media_type.route_accepts(accept, produced)
    assert _negotiating.passes_go_restful(accept) == expected


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        (GOOD, GOOD),
        ("application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io", GOOD),
        (f"application/json,{GOOD};q=0.1", GOOD),
        (f"{GOOD.replace('v=v2', 'v=v3')},application/json", "application/json"),
        (GOOD.replace("v=v2", "v=v3"), None),
        (GOOD.replace("v2", '"v2"'), None),
        (GOOD.replace(";g", ";G").replace(";v", ";V").replace(";as", ";AS"), "application/json"),
        (f"*/*;{GOOD.partition(';')[2]}", GOOD),
        (f"{GOOD};sv=v1", None),
        (f"{GOOD};profile=nopeer", GOOD),
        ("application/json;q=0", "application/json"),
        ("application/cbor", None),
        ("garbage", None),
        (",", None),
    ],
)
def test_worked_examples(accept: str, content_type: str | None) -> None:
    chosen = _negotiating.negotiate(accept, ("v2",))
    assert (chosen.content_type if chosen else None) == content_type
