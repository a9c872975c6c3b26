"""Unaggregated documents of old clusters are converted as by Kubernetes."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from apidiscovery_client._reading import read_document, read_resources
from apidiscovery_client.model import GroupVersion, Resource
from fake_api_server import aggregated
from legacy_clusters import CLUSTERS, converted, recorded

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def expected(gv: GroupVersion, entry: Mapping[str, object]) -> tuple[Resource, ...]:
    answer = aggregated({"metadata": {"name": gv.group}, "versions": [entry]})
    half = read_document("/apis", answer.content_type, answer.body, NOW)
    return half.groups[0].versions[0].resources


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_every_group_version_is_converted_as_by_kubernetes(cluster: str) -> None:
    documents = recorded(cluster)
    assert len(converted(cluster)) >= 18
    for path, entry in converted(cluster).items():
        gv = GroupVersion(path.split("/")[2] if path.count("/") > 2 else "", path.split("/")[-1])
        assert gv.path == path
        read = read_resources(gv, "application/json", documents[path])
        without_hashes = tuple(replace(resource, storage_version_hash="") for resource in read)
        assert without_hashes == expected(gv, entry)
