"""A server that publishes what it serves, and says that it is alive while it runs.

Run it beside `make run`; it publishes a group, renews for some seconds, and withdraws it.
"""

import sys
import time
from datetime import timedelta

import grpc
from apidiscovery.meta.v1 import meta_pb2
from apidiscovery.service.v1 import registry_pb2, registry_pb2_grpc
from apidiscovery.v2 import discovery_pb2
from google.protobuf.duration_pb2 import Duration

SERVER = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:50051"
NAME = "gadgets"


def group() -> discovery_pb2.APIGroupDiscovery:
    """Return what this server serves."""
    resource = discovery_pb2.APIResourceDiscovery(
        resource="gadgets",
        singular_resource="gadget",
        response_kind=meta_pb2.GroupVersionKind(
            group="gadgets.example.com", version="v1", kind="Gadget"
        ),
        scope="Namespaced",
        verbs=["get", "list", "watch"],
    )
    version = discovery_pb2.APIVersionDiscovery(
        version="v1", resources=[resource], freshness="Current"
    )
    return discovery_pb2.APIGroupDiscovery(
        metadata=meta_pb2.ObjectMeta(name="gadgets.example.com"), versions=[version]
    )


def main() -> None:
    """Publish, renew three times, withdraw."""
    lease = Duration()
    lease.FromTimedelta(timedelta(seconds=6))
    with grpc.insecure_channel(SERVER) as channel:
        registry = registry_pb2_grpc.RegistryServiceStub(channel)
        published = registry.Publish(
            registry_pb2.PublishRequest(
                name=NAME,
                owner=NAME,
                groups=registry_pb2.PublishedGroups(
                    groups=[registry_pb2.PublishedGroup(group=group())]
                ),
                lease=registry_pb2.OwnerLease(duration=lease),
            )
        )
        print(f"published at revision {published.registration.revision}")
        for _ in range(3):
            renewed = registry.Renew(registry_pb2.RenewRequest(owner=NAME))
            pause = renewed.renew_within.ToTimedelta()
            print(f"alive, next within {pause.total_seconds():g} s")
            time.sleep(pause.total_seconds())
        registry.Withdraw(registry_pb2.WithdrawRequest(owner=NAME))
        print("withdrawn")


if __name__ == "__main__":
    main()
