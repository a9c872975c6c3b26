"""What the commands over gRPC share: connection options, errors as kubectl words them."""

import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Concatenate, ParamSpec, TypedDict, TypeVar, cast

import click
import grpc
from apidiscovery_client._connecting import Flags, read_grpc_server
from apidiscovery_client._grpc.calls import (
    CallRefused,
    FieldProblem,
    GrpcClient,
    GrpcServer,
    is_local,
)

from apidiscovery_cli.click_options import with_options
from apidiscovery_cli.connection_options import (
    CREDENTIALS,
    KUBECONFIG,
    TIMEOUT,
    blamed_on_options,
    flags_of,
    has_terminal,
)
from apidiscovery_cli.exit_codes import FAILED
from apidiscovery_cli.option_values import grpc_address
from apidiscovery_cli.output import tell
from apidiscovery_cli.plain_options import Option, Values
from apidiscovery_cli.registry_client import RegistryClient

P = ParamSpec("P")
T = TypeVar("T")
ClientT = TypeVar("ClientT", bound=GrpcClient)

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
# How a server ends its message that has more to tell than details of an error can hold.
_MORE = re.compile(r"\band ([0-9]+) more$")
# Errors that may be those of a part of a request; the others would be the same for every part.
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


_OPTIONS = (
    Option(
        ("--grpc-server",),
        "The address and port of the server for gRPC.",
        variable="APIDISCOVERY_GRPC_SERVER",
        metavar="HOST:PORT",
        reads=grpc_address,
        default="127.0.0.1:50051",
    ),
    *KUBECONFIG,
    *CREDENTIALS,
    Option(("--token-file",), "Path to a file that holds the bearer token.", path="file"),
    Option(
        ("--tls-server-name",),
        "Name that the server's certificate must have, by default that of --grpc-server.",
    ),
    Option(
        ("--plaintext", "--insecure"),
        "Do without TLS; the default for this machine, where no other option asks for TLS.",
        reads=None,
    ),
    TIMEOUT,
)
# What makes sense with TLS only; a kubeconfig gives nothing away without it.
_FOR_TLS = (
    "certificate_authority",
    "client_certificate",
    "client_key",
    "tls_server_name",
    "kubeconfig",
    "context",
    "cluster",
    "user",
)


class Own(TypedDict):
    """The options that are of gRPC alone."""

    grpc_server: str
    token_file: str | None
    plaintext: bool


def with_registry(command: Callable[Concatenate[RegistryClient, P], bool]) -> Callable[..., None]:
    """Add the connection options to a command about registrations, as `with_client` does."""
    return with_client(RegistryClient)(command)


def with_client(
    connect: Callable[[GrpcServer], ClientT],
) -> Callable[[Callable[Concatenate[ClientT, P], bool]], Callable[..., None]]:
    """Add the connection options to a command, which gets a client and returns if all went well.

    Errors of a call are told as kubectl tells those of a server, and the exit code is 1 then.
    """

    def add(command: Callable[Concatenate[ClientT, P], bool]) -> Callable[..., None]:
        @with_options(_OPTIONS, _named_server)
        @functools.wraps(command)
        def run(server: GrpcServer, /, *args: P.args, **kwargs: P.kwargs) -> None:
            with connect(server) as client:
                try:
                    went_well = command(client, *args, **kwargs)
                except CallRefused as refused:
                    tell_refusal(refused)
                    went_well = False
            if not went_well:
                click.get_current_context().exit(FAILED)

        return run

    return add


def _named_server(values: Values) -> GrpcServer:
    with blamed_on_options():
        return server_at(cast("Own", values.given), flags_of(values))


def server_at(own: Own, flags: Flags) -> GrpcServer:
    """Return the gRPC server that the options of a command name.

    Raises:
        click.UsageError: They contradict each other.
        InvalidConfiguration: What they or a kubeconfig say cannot be used.
    """
    address = own["grpc_server"]
    names_tls = any(flags.get(name) for name in _FOR_TLS)
    if own["plaintext"] and names_tls:
        raise click.UsageError("--plaintext cannot be used together with options for TLS")
    is_plain = own["plaintext"] or (is_local(address) and not names_tls)
    token = _token(flags.get("token"), own["token_file"])
    if token and is_plain and not is_local(address):
        raise click.UsageError(f"a token is not sent without TLS, as to {address}")
    named: Flags = {**flags, "token": token}
    return read_grpc_server(
        address, plaintext=is_plain, prefix="--", terminal=has_terminal(), **named
    )


def _token(token: str | None, file: str | None) -> str | None:
    """Return the token, never shown; raise `click.UsageError` for one that cannot be sent."""
    if file:
        source = click.get_current_context().get_parameter_source("token")
        if token and source is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError("--token and --token-file cannot be used together")
        token = _content(file, "--token-file").decode(errors="replace").strip()
        if not token:
            raise click.UsageError(f"--token-file is empty: {file}")
    if token and not re.fullmatch(r"[!-~]+", token):
        raise click.UsageError("the token has characters that no token has")
    return token or None


def _content(path: str, option: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise click.UsageError(f"{option} cannot be read: {error}") from error


def refusal_lines(error: CallRefused, file: str = "") -> list[str]:
    """Return an error of the server in lines, one for each field that is wrong.

    Args:
        error: What the server answered.
        file: The one manifest of the request, which the server may call `manifests[0]`.
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
    """Return what is wrong with a field as the server says it of its own files.

    That is `crds.yaml:12, document 1, spec.scope: ...`; the line is in the description.
    """
    field, description = problem.field, problem.description
    found = _IN_MANIFEST.fullmatch(field)
    if not (file and found):
        return f"{field}: {description}" if field else description
    place = [file]
    if line := re.match(rf"{re.escape(file)}(?::[0-9]+)?: ", description):
        place = [line[0].removesuffix(": ")]
        description = description.removeprefix(line[0])
    if found["document"]:
        place.append(f"document {int(found['document']) + 1}")
    if found["path"]:
        place.append(found["path"])
    return f"{', '.join(place)}: {description}"


def tell_refusal(error: CallRefused) -> None:
    """Write an error of the server on stderr."""
    tell(*refusal_lines(error))


def piecewise(
    parts: Sequence[T],
    send: Callable[[Sequence[T]], None],
    refused: Callable[[T, CallRefused], None],
) -> None:
    """Send all parts with one request, or, if one may be to blame, halves, halves of those ...

    So what is wrong with one part does not keep the others back, and all are sent in order.

    Raises:
        CallRefused: For a reason that does not lie in the parts.
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
