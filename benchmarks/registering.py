"""A client of RegistryService: fills a server, and applies definitions one by one."""

import contextlib
import subprocess
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor

import grpc
import orjson
from apidiscovery.service.v1 import registry_pb2
from children import APPLY, UNLIMITED
from crds import Document
from processes import child_command, read_line, running

# As many definitions as a `kubectl apply` of large packages may have, and so many callers at once.
BATCH, AT_ONCE = 100, 4


def fill(address: str, documents: Iterable[Document]) -> None:
    """Apply documents, many with each request."""
    texts = list(map(orjson.dumps, documents))
    requests = [
        registry_pb2.ApplyRequest(
            manifests=[
                registry_pb2.ApplyRequest.Manifest(content=text)
                for text in texts[begin : begin + BATCH]
            ]
        )
        for begin in range(0, len(texts), BATCH)
    ]
    with (
        grpc.insecure_channel(address, options=UNLIMITED) as channel,
        ThreadPoolExecutor(AT_ONCE) as callers,
    ):
        call = channel.unary_unary(
            APPLY,
            registry_pb2.ApplyRequest.SerializeToString,
            registry_pb2.ApplyResponse.FromString,
        )
        for waiting in [callers.submit(call, request, timeout=60.0) for request in requests]:
            waiting.result()


@contextlib.contextmanager
def applying(address: str) -> Generator[subprocess.Popen[bytes]]:
    """Run a process that applies the document of each line that it is told."""
    with running(child_command("apply", address), piped=True) as child:
        read_line(child)
        yield child
