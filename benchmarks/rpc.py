"""GetDiscovery over gRPC, against an empty handler on grpc.aio."""

import contextlib
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import grpc
from apidiscovery.service.v1 import discovery_pb2
from children import METHOD, UNLIMITED
from documents import groups, manifest
from load import Sample, interleaved
from processes import ask, child_command, cpu_s, read_line, running, serving
from report import Row
from warm import GROUPS, RESOURCES, Effort, ratio_row

_CALLS_AT_A_TIME = 16


def measure(folder: Path, effort: Effort) -> Iterator[Row]:
    """Yield a row for a caller that is up to date and one for a caller that has nothing."""
    file = folder / "600.json"
    file.write_bytes(manifest(groups(GROUPS, RESOURCES)))
    with serving(folder, "--manifests", file) as served:
        everything = discovery_pb2.GetDiscoveryRequest(scope=discovery_pb2.DISCOVERY_SCOPE_GROUPS)
        answer = _call(served.grpc, everything.SerializeToString())
        etag = discovery_pb2.GetDiscoveryResponse.FromString(answer).etag
        up_to_date = discovery_pb2.GetDiscoveryRequest(
            scope=discovery_pb2.DISCOVERY_SCOPE_GROUPS, if_none_match=etag
        )
        for name, request in (("not modified", up_to_date), ("whole document", everything)):
            encoded = request.SerializeToString()
            answer = _call(served.grpc, encoded)
            with contextlib.ExitStack() as stack:
                clients = {"ours": (_client(stack, folder, served.grpc, encoded), served.pid)}
                for key in ("empty", "control"):
                    clients[key] = _empty(stack, folder, encoded, answer)
                runs = {
                    key: partial(_run, client, pid, effort.seconds)
                    for key, (client, pid) in clients.items()
                }
                samples = interleaved(runs, effort.rounds, effort.clock.out)
            yield ratio_row("grpc", f"gRPC {name}", samples, len(answer), by_cpu=True)


def _call(address: str, request: bytes) -> bytes:
    with grpc.insecure_channel(address, options=UNLIMITED) as channel:
        call = channel.unary_unary(METHOD, _same, _same)
        return call(request)


def _same(message: bytes) -> bytes:
    return message


def _client(
    stack: contextlib.ExitStack, folder: Path, address: str, request: bytes
) -> subprocess.Popen[bytes]:
    file = folder / "request"
    file.write_bytes(request)
    client = stack.enter_context(running(child_command("grpc-load", address, file), piped=True))
    read_line(client)
    return client


def _empty(
    stack: contextlib.ExitStack, folder: Path, request: bytes, answer: bytes
) -> tuple[subprocess.Popen[bytes], int]:
    file = folder / "answer"
    file.write_bytes(answer)
    server = stack.enter_context(running(child_command("grpc-empty", file), piped=True))
    address = str(read_line(server)["grpc"])
    return _client(stack, folder, address, request), server.pid


def _run(client: subprocess.Popen[bytes], pid: int, seconds: int) -> Sample:
    before = cpu_s(pid)
    result = ask(client, [seconds, _CALLS_AT_A_TIME])
    requests = float(str(result["requests"]))
    return Sample(requests / float(str(result["seconds"])), (cpu_s(pid) - before) / requests * 1e6)
