"""What a server has acknowledged is there after it was killed at any moment."""

import asyncio
import contextlib
import json
from pathlib import Path

import grpc
import grpc.aio
from apidiscovery.service.v1 import registry_pb2, registry_pb2_grpc
from openapi_process import apply, crontabs, describing, document, publication, publish
from raw_http import get
from server import Serve, Server
from waiting import WITHIN_S, until

_ROUNDS = 2
_WORKERS = 4
_KILL_AFTER_S = 0.4

DEFINED = "kept.example.org"
DEFINITION = f"crontabs.{DEFINED}"


def request(name: str) -> registry_pb2.PublishRequest:
    published = publication(f"{name}.example.com")
    published.owner = "me"
    return published


async def publish_until_it_ends(target: str, prefix: str, acknowledged: dict[str, int]) -> None:
    async with grpc.aio.insecure_channel(target) as channel:
        stub = registry_pb2_grpc.RegistryServiceStub(channel)
        with contextlib.suppress(grpc.aio.AioRpcError):
            for number in range(100_000):
                answer = await stub.Publish(request(f"{prefix}-{number}"), timeout=WITHIN_S)
                acknowledged[answer.registration.name] = answer.registration.revision


async def registered(target: str) -> dict[str, int]:
    found: dict[str, int] = {}
    async with grpc.aio.insecure_channel(target) as channel:
        stub = registry_pb2_grpc.RegistryServiceStub(channel)
        token = ""
        while True:
            page = await stub.ListRegistrations(
                registry_pb2.ListRegistrationsRequest(page_size=1000, page_token=token)
            )
            found |= {one.name: one.revision for one in page.registrations}
            token = page.next_page_token
            if not token:
                return found


async def test_nothing_that_was_acknowledged_is_lost_by_kill(serve: Serve, tmp_path: Path) -> None:
    flags = ("--catalog", "none", "--store", f"sqlite:{tmp_path / 'store.sqlite'}")
    acknowledged: dict[str, int] = {}
    documents: dict[str, bytes] = {}
    for number in range(_ROUNDS):
        server = await asyncio.to_thread(serve, *flags)
        documents = documents or await asyncio.to_thread(described, server)
        workers = [
            asyncio.create_task(
                publish_until_it_ends(server.grpc, f"r{number}-w{worker}", acknowledged)
            )
            for worker in range(_WORKERS)
        ]
        await asyncio.sleep(_KILL_AFTER_S)
        least = (number + 1) * _WORKERS
        await until(lambda: len(acknowledged) > least, f"over {least} acknowledged")  # noqa: B023 - awaited
        server.process.kill()
        server.process.wait()
        await asyncio.gather(*workers)
    server = await asyncio.to_thread(serve, *flags)
    found = await registered(server.grpc)
    assert len(acknowledged) > _ROUNDS * _WORKERS
    assert acknowledged.items() <= found.items()
    served = json.loads((await asyncio.to_thread(get, server.http_port, "/apis")).body)
    groups = {f"{n}.example.com" for n in found if n != DEFINITION}
    assert {group["name"] for group in served["groups"]} == groups | {DEFINED}
    for key, body in documents.items():
        assert (await asyncio.to_thread(document, server, key)).body == body


def described(server: Server) -> dict[str, bytes]:
    """Publish a group with its document, and define a kind; return the documents of both."""
    published = publish(server, "kept.example.com", describing("kept.example.com"))
    apply(server, crontabs(DEFINED))
    return {key: document(server, key).body for key in (published, f"apis/{DEFINED}/v1")}
