"""The Content-Type of an answer alone decides what its body must be."""

import pytest
from apidiscovery_client._negotiation import (
    ACCEPT,
    ACCEPT_JSON,
    VERSIONS,
    Promise,
    UnexpectedTypeError,
    promised,
)

V2 = Promise("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
PLAIN = Promise("APIGroupList")


def test_newest_representation_is_asked_for_first_and_plain_json_last() -> None:
    protobuf = "application/vnd.kubernetes.protobuf"
    v2, v2beta1 = (f"g=apidiscovery.k8s.io;v={v};as=APIGroupDiscoveryList" for v in VERSIONS)
    assert f"application/json;{v2},application/json;{v2beta1},application/json" == ACCEPT_JSON
    assert (
        f"{protobuf};{v2},application/json;{v2},"
        f"{protobuf};{v2beta1},application/json;{v2beta1},application/json"
    ) == ACCEPT


@pytest.mark.parametrize(
    ("content_type", "promise"),
    [
        pytest.param(
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", V2, id="v2"
        ),
        pytest.param(
            'application/json; AS=APIGroupDiscoveryList;x=y; v="v2"; g=apidiscovery.k8s.io',
            V2,
            id="v2 through a proxy",
        ),
        pytest.param(
            "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
            Promise("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2beta1"),
            id="v2beta1",
        ),
        pytest.param(
            "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            Promise("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2", is_protobuf=True),
            id="protobuf",
        ),
        pytest.param(
            "application/vnd.kubernetes.protobuf",
            Promise("APIGroupList", is_protobuf=True),
            id="plain protobuf",
        ),
        pytest.param("application/json", PLAIN, id="plain"),
        pytest.param("application/json; charset=utf-8", PLAIN, id="plain with a charset"),
        pytest.param("application/json;g=other;v=v2;as=APIGroupDiscoveryList", PLAIN, id="other"),
        pytest.param("application/json;v=v2", PLAIN, id="parameters dropped"),
        pytest.param("garbage", PLAIN, id="malformed"),
        pytest.param(None, PLAIN, id="absent"),
    ],
)
def test_promise(content_type: str | None, promise: Promise) -> None:
    assert promised(content_type, "APIGroupList") == promise


@pytest.mark.parametrize(
    "content_type",
    [
        "text/html",
        "application/cbor;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        "application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList",
        "application/json;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList",
    ],
)
def test_a_type_that_was_not_requested_is_refused(content_type: str) -> None:
    with pytest.raises(UnexpectedTypeError):
        promised(content_type, "APIGroupList")
