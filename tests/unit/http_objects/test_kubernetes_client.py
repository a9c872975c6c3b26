"""The official Python client reads, watches and patches objects as custom ones."""

import asyncio
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from object_server import ObjectServer, lease, storage_version

# Its answers are untyped, and its types do not quite match them.
client: Any = import_module("kubernetes.client")
watch: Any = import_module("kubernetes.watch")

GROUP, VERSION, PLURAL = "internal.apiserver.k8s.io", "v1alpha1", "storageversions"


@pytest.fixture
def api_client(served: ObjectServer) -> Iterator[Any]:
    configuration = client.Configuration()
    configuration.host = served.url
    with client.ApiClient(configuration) as made:
        yield made


async def test_custom_objects_are_written_and_read(
    served: ObjectServer,
    api_client: Any,  # noqa: ANN401
) -> None:
    api = client.CustomObjectsApi(api_client)

    def work() -> None:
        api.create_cluster_custom_object(GROUP, VERSION, PLURAL, storage_version("core.pods"))
        patch = {"metadata": {"labels": {"a": "b"}}}
        api.patch_cluster_custom_object(GROUP, VERSION, PLURAL, "core.pods", patch)
        listed = api.list_cluster_custom_object(GROUP, VERSION, PLURAL, label_selector="a=b")
        assert [item["metadata"]["name"] for item in listed["items"]] == ["core.pods"]
        one = api.get_cluster_custom_object(GROUP, VERSION, PLURAL, "core.pods")
        api.replace_cluster_custom_object(GROUP, VERSION, PLURAL, "core.pods", one)
        gone = api.delete_cluster_custom_object(GROUP, VERSION, PLURAL, "core.pods")
        assert gone["status"] == "Success"
        with pytest.raises(client.ApiException) as caught:
            api.get_cluster_custom_object(GROUP, VERSION, PLURAL, "core.pods")
        assert caught.value.status == 404

    await asyncio.to_thread(work)
    assert not served.objects.view


async def test_custom_objects_are_watched(served: ObjectServer, api_client: Any) -> None:  # noqa: ANN401
    api = client.CustomObjectsApi(api_client)
    await served.create("core.pods")

    def work() -> list[tuple[str, str]]:
        events = watch.Watch().stream(
            api.list_cluster_custom_object, GROUP, VERSION, PLURAL, timeout_seconds=1
        )
        return [(event["type"], event["object"]["metadata"]["name"]) for event in events]

    assert await asyncio.to_thread(work) == [("ADDED", "core.pods")]


async def test_leases_are_read_into_the_model_of_the_client(
    served: ObjectServer,
    api_client: Any,  # noqa: ANN401
) -> None:
    await served.leases.create(lease("apiserver-a"))
    api = client.CoordinationV1Api(api_client)
    listed = await asyncio.to_thread(api.list_namespaced_lease, "kube-system")
    assert [item.spec.holder_identity for item in listed.items] == ["apiserver-a_0"]
    assert listed.items[0].spec.lease_duration_seconds == 3600
