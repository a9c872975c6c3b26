"""Feature gates: kube-apiserver's names and Go's booleans."""

import pytest
from apidiscovery_service.errors import InvalidConfiguration
from apidiscovery_service.serving.feature_gates import (
    AGGREGATED_DISCOVERY,
    REMOVE_BETA_TYPE,
    RESPONSE_COMPRESSION,
    STORAGE_VERSION_HASH,
    FeatureGates,
)

NAMES = (AGGREGATED_DISCOVERY, REMOVE_BETA_TYPE, RESPONSE_COMPRESSION, STORAGE_VERSION_HASH)


def test_the_names_are_those_of_kubernetes() -> None:
    assert NAMES == (
        "AggregatedDiscoveryEndpoint",
        "AggregatedDiscoveryRemoveBetaType",
        "APIResponseCompression",
        "StorageVersionHash",
    )


@pytest.mark.parametrize("text", ["", " ", ",", ", ,"])
def test_gates_that_are_not_named_keep_their_defaults(text: str) -> None:
    gates = FeatureGates.parse(text)
    assert gates == FeatureGates()
    assert [gates[name] for name in NAMES] == [True, False, True, True]


@pytest.mark.parametrize(
    ("value", "on"),
    [
        *((value, True) for value in ("1", "t", "T", "true", "TRUE", "True")),
        *((value, False) for value in ("0", "f", "F", "false", "FALSE", "False")),
    ],
)
def test_a_value_is_a_boolean_of_go(value: str, on: object) -> None:
    gates = FeatureGates.parse(",".join(f"{name}={value}" for name in NAMES))
    assert all(gates[name] is on for name in NAMES)


def test_gates_are_separated_by_commas_and_the_last_of_a_name_counts() -> None:
    gates = FeatureGates.parse(
        " StorageVersionHash = false ,APIResponseCompression=false,StorageVersionHash=true,"
    )
    assert [gates[name] for name in NAMES] == [True, False, False, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("Nope=true", "unknown feature gate 'Nope'; known are Aggregated", id="name"),
        pytest.param("storageversionhash=true", "unknown feature gate", id="case"),
        pytest.param("=true", "unknown feature gate ''", id="no-name"),
        pytest.param(
            "StorageVersionHash",
            "feature gate StorageVersionHash wants =true or =false, not ''",
            id="no-value",
        ),
        pytest.param("StorageVersionHash=", "not '='", id="empty-value"),
        pytest.param("StorageVersionHash=yes", "not '=yes'", id="yes"),
        pytest.param("StorageVersionHash=tRUE", "not '=tRUE'", id="mixed-case"),
        pytest.param("StorageVersionHash=true=false", "not '=true=false'", id="two-values"),
    ],
)
def test_a_wrong_gate_is_named(text: str, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        FeatureGates.parse(text)


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        pytest.param("", ("v2", "v2beta1"), id="default"),
        pytest.param("AggregatedDiscoveryRemoveBetaType=true", ("v2",), id="without-beta"),
        pytest.param("AggregatedDiscoveryEndpoint=false", (), id="old-server"),
        pytest.param(
            "AggregatedDiscoveryEndpoint=false,AggregatedDiscoveryRemoveBetaType=false",
            (),
            id="old-server-whatever-else",
        ),
    ],
)
def test_gates_tell_the_aggregated_versions(text: str, versions: tuple[str, ...]) -> None:
    assert FeatureGates.parse(text).aggregated_versions == versions
