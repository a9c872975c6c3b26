"""Names, tags and descriptions of operations."""

import pytest
from apidiscovery_service.openapi.operations import (
    article,
    camel,
    operation_id,
)


@pytest.mark.parametrize(
    ("stem", "group", "expected"),
    [
        ("listXForAllNamespaces", "a.example", "listAExampleV1XForAllNamespaces"),
        ("createNamespacedX", "a.example", "createAExampleV1NamespacedX"),
        (
            "deletecollectionNamespacedX",
            "a.example",
            "deleteAExampleV1CollectionNamespacedX",
        ),
        ("patchNamespacedXStatus", "apps.k8s.io", "patchAppsV1NamespacedXStatus"),
        ("readX", "gateway.networking.k8s.io", "readGatewayNetworkingV1X"),
        ("readX", "gateway.networking.x-k8s.io", "readGatewayNetworkingXK8sIoV1X"),
        ("replaceX", "1a.2b", "replaceA2bV1X"),
    ],
)
def test_operation_ids(stem: str, group: str, expected: str) -> None:
    assert operation_id(stem, group, "v1") == expected


def test_an_operation_without_a_verb_has_no_id() -> None:
    with pytest.raises(ValueError, match="empty"):
        operation_id("makeX", "a.example", "v1")


@pytest.mark.parametrize(
    ("text", "capital", "expected"),
    [
        ("stable.example.com", True, "StableExampleCom"),
        ("stable.example.com", False, "stableExampleCom"),
        ("x-k8s_a.io", False, "xK8s_aIo"),
        ("9to5", False, "To5"),
        ("", True, ""),
        ("größe.ß", True, "Größeß"),
    ],
)
def test_camel(text: str, capital: bool, expected: str) -> None:  # noqa: FBT001 - a table
    assert camel(text, capital=capital) == expected


@pytest.mark.parametrize(
    ("noun", "expected"),
    [
        ("CronTab", " a "),
        ("Issuer", " an "),
        ("order", " an "),
        ("Prometheus", " "),
        ("GatewayClass", " a "),
        ("s", " "),
    ],
)
def test_articles(noun: str, expected: str) -> None:
    assert article(noun) == expected
