"""What the commands over gRPC share: connection options, calls, errors in kubectl's words."""

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Concatenate, ParamSpec, TypeVar, cast

import click
import grpc
from apidiscovery.service.v1 import (
    discovery_pb2,
    discovery_pb2_grpc,
    registry_pb2,
    registry_pb2_grpc,
)
from apidiscovery_client._grpc.calls import (
    CallRefused,
    FieldProblem,
    GrpcClient,
    GrpcServer,
)

from apidiscovery_cli.connection_options import (
    CREDENTIALS,
    GRPC_SERVER,
    KUBECONFIG,
    KUBECONFIG_CLUSTER,
    PLAINTEXT,
    TIMEOUT,
    TOKEN_FILE,
    OfGrpc,
    flags_of,
    grpc_server_at,
    usage_errors,
)
from apidiscovery_cli.options import Option, Values, with_options
from apidiscovery_cli.output import FAILED, tell

P = ParamSpec("P")
T = TypeVar("T")
ClientT = TypeVar("ClientT", bound=GrpcClient)

PAGE_SIZE = 500  # kubectl's --chunk-size

# The reason of a Kubernetes Status (meta/v1 types.go `StatusReason`) for a status of gRPC.
_REASONS = {
    grpc.StatusCode.INVALID_ARGUMENT: "Invalid",
    grpc.StatusCode.UNAUTHENTICATED: "Unauthorized",
    grpc.StatusCode.PERMISSION_DENIED: "Forbidden",
    grpc.StatusCode.NOT_FOUND: "NotFound",
    grpc.StatusCode.ALREADY_EXISTS: "AlreadyExists",
    grpc.StatusCode.ABORTED: "Conflict",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "TooManyRequests",
    grpc.StatusCode.UNAVAILABLE: "ServiceUnavailable",
    grpc.StatusCode.INTERNAL: "InternalError",
    grpc.StatusCode.UNIMPLEMENTED: "MethodNotAllowed",
}
_IN_MANIFEST = re.compile(
    r"manifests\[[0-9]+\](?:\.documents\[(?P<document>[0-9]{1,9})\])?(?:\.content$)?\.?(?P<path>.*)"
)
# The end of a message with more errors than the details can hold.
_MORE = re.compile(r"\band ([0-9]+) more$")
# Errors that a part of a request may cause; others would be the same for every part.
_OF_A_PART = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.RESOURCE_EXHAUSTED,  # too large, unless the server says to come later
    }
)


_OPTIONS: tuple[Option, ...] = (
    GRPC_SERVER,
    *KUBECONFIG,
    *CREDENTIALS,
    TOKEN_FILE,
    click.option(
        "--tls-server-name",
        help="Name that the server's certificate must have, by default that of --server.",
    ),
    PLAINTEXT,
    TIMEOUT,
)


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The result of a withdrawal.

    Attributes:
        references: What was removed.
        repeated: Whether an earlier attempt without an answer may have removed more.
    """

    references: tuple[registry_pb2.RegistrationReference, ...]
    repeated: bool


class RegistryClient(GrpcClient):
    """One connection to a server for registrations."""

    def __init__(self, server: GrpcServer) -> None:
        super().__init__(server)
        self._registry = registry_pb2_grpc.RegistryServiceStub(self._channel)
        self._discovery = discovery_pb2_grpc.DiscoveryServiceStub(self._channel)

    def apply(self, request: registry_pb2.ApplyRequest) -> tuple[registry_pb2.AppliedDocument, ...]:
        """Apply manifests; return the result of each document, in order."""
        answer, _ = self._call("Apply", self._registry.Apply, request)
        return tuple(answer.documents)

    def withdraw(self, request: registry_pb2.WithdrawRequest) -> Withdrawn:
        """Remove registrations; one that does not exist is not an error."""
        answer, repeated = self._call("Withdraw", self._registry.Withdraw, request)
        return Withdrawn(tuple(answer.withdrawn), repeated)

    def registrations(
        self, kind: registry_pb2.RegistrationKind.ValueType, names: Sequence[str] = ()
    ) -> Iterator[registry_pb2.Registration]:
        """Yield the registrations of a kind by name, all or those with these names."""
        token = ""
        while True:
            request = registry_pb2.ListRegistrationsRequest(
                kinds=[kind], names=names, page_size=PAGE_SIZE, page_token=token
            )
            page, _ = self._call("ListRegistrations", self._registry.ListRegistrations, request)
            yield from page.registrations
            token = page.next_page_token
            if not token:
                return

    def sources(self) -> tuple[discovery_pb2.DiscoverySource, ...]:
        """Return the sources of what is served, by name."""
        request = discovery_pb2.ListSourcesRequest()
        answer, _ = self._call("ListSources", self._discovery.ListSources, request)
        return tuple(answer.sources)


def with_registry(command: Callable[Concatenate[RegistryClient, P], bool]) -> Callable[..., None]:
    """Add the connection options to a command about registrations, as `with_client` does."""
    return with_client(RegistryClient)(command)


def with_client(
    connect: Callable[[GrpcServer], ClientT],
    *,
    has_own_cluster: bool = False,
) -> Callable[[Callable[Concatenate[ClientT, P], bool]], Callable[..., None]]:
    """Add the connection options to a command, which gets a client and returns its success.

    Refused calls are reported as kubectl reports errors of a server. The exit code of a failure is
    1.

    Args:
        connect: Makes the client.
        has_own_cluster: Whether the option --cluster of the command is another one than kubectl's.
    """
    options = _OPTIONS
    if has_own_cluster:
        options = tuple(option for option in _OPTIONS if option is not KUBECONFIG_CLUSTER)

    def add(command: Callable[Concatenate[ClientT, P], bool]) -> Callable[..., None]:
        @with_options(options, named_server)
        @functools.wraps(command)
        def run(server: GrpcServer, /, *args: P.args, **kwargs: P.kwargs) -> None:
            with connect(server) as client:
                try:
                    succeeded = command(client, *args, **kwargs)
                except CallRefused as refused:
                    tell_refusal(refused)
                    succeeded = False
            if not succeeded:
                click.get_current_context().exit(FAILED)

        return run

    return add


def named_server(values: Values) -> GrpcServer:
    """Take the server out of the values of the current command; raise as `grpc_server_at`."""
    own = cast("OfGrpc", {name: values.pop(name) for name in OfGrpc.__annotations__})
    with usage_errors():
        return grpc_server_at(own, flags_of(values))


def refusal_lines(error: CallRefused, file: str = "") -> list[str]:
    """Return an error of the server in lines, one for each wrong field.

    Args:
        error: The error.
        file: The only manifest of the request, which the server may name `manifests[0]`.
    """
    if error.problems:
        lines = [f"error: {_problem(problem, file)}" for problem in error.problems]
        if more := _MORE.search(error.message):
            lines.append(f"error: {f'{file}: ' if file else ''}and {more[1]} more")
        return lines
    name = error.code.name
    reason = _REASONS.get(error.code, "".join(word.capitalize() for word in name.split("_")))
    said = " ".join(error.message.split()) or "the server gave no reason"
    doing = f'error when applying "{file}": ' if file else ""
    return [f"Error from server ({reason}): {doing}{said}"]


def _problem(problem: FieldProblem, file: str) -> str:
    """Return the error of a field in the form that the server uses for its own files.

    That is `crds.yaml:12, document 1, spec.scope: ...`; the description has the line.
    """
    field, description = problem.field, problem.description
    found = _IN_MANIFEST.fullmatch(field)
    if not (file and found):
        return f"{field}: {description}" if field else description
    position = [file]
    if line := re.match(rf"{re.escape(file)}(?::[0-9]+)?: ", description):
        position = [line[0].removesuffix(": ")]
        description = description.removeprefix(line[0])
    if found["document"]:
        position.append(f"document {int(found['document']) + 1}")
    if found["path"]:
        position.append(found["path"])
    return f"{', '.join(position)}: {description}"


def tell_refusal(error: CallRefused) -> None:
    """Report an error of the server on stderr."""
    tell(*refusal_lines(error))


def piecewise(
    parts: Sequence[T],
    send: Callable[[Sequence[T]], None],
    refused: Callable[[T, CallRefused], None],
) -> None:
    """Send parts in one request; if one part may be refused, in halves, recursively, in order.

    So a wrong part does not keep the others from being applied.

    Raises:
        CallRefused: For a reason that does not depend on the parts.
        ServerUnreachable: As `send`.
    """
    try:
        send(parts)
    except CallRefused as error:
        if error.code not in _OF_A_PART or error.retry_after_s is not None:
            raise
        if len(parts) == 1:
            refused(parts[0], error)
            return
        middle = len(parts) // 2
        piecewise(parts[:middle], send, refused)
        piecewise(parts[middle:], send, refused)
