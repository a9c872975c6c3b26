"""From a URL, flags or a kubeconfig to a server, its transport and its place in the cache."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
)

from apidiscovery_client._errors import InvalidConfiguration
from apidiscovery_client._interfaces import AsyncTransport, SnapshotCache, Transport
from apidiscovery_client._package import require_grpc
from apidiscovery_client._server import DEFAULT_TIMEOUT_S, Server

if TYPE_CHECKING:  # they are imported when they are needed
    from apidiscovery_kubeconfig.connection import Connection
    from apidiscovery_kubeconfig.kubeconfig import Overrides

    from apidiscovery_client._grpc.calls import GrpcServer

TransportT = TypeVar("TransportT")
Stubs: TypeAlias = Literal["grpcio", "betterproto"]

# Names in `transports`, by protocol and stubs.
_ASYNC = {
    "http": "AsyncHttpTransport",
    "grpcio": "AsyncGrpcTransport",
    "betterproto": "AsyncBetterprotoTransport",
}
_BLOCKING = {
    "http": "HttpTransport",
    "grpcio": "GrpcTransport",
    "betterproto": "BetterprotoTransport",
}
_SCHEMES = ("http", "https", "grpc")  # and grpcs
# The keyword arguments of clients that are not settings.
_OF_CLIENTS = ("cache", "cache_key", "options", "clock")
# Flags that do not change who the caller is.
_NOT_OF_IDENTITY = {"server", "disable_compression", "request_timeout_s"}


class Flags(TypedDict, total=False):
    """A server and its credentials by kubectl's flags; empty or None for flags that are not set.

    Attributes:
        kubeconfig: The file to read instead of those of KUBECONFIG, or of ~/.kube/config.
        context: Instead of the current one.
        cluster: Instead of that of the context.
        user: Instead of that of the context.
        server: A URL.
        as_user: The user to impersonate, with `as_uid` and `as_groups`.
        proxy_url: The URL of a proxy.
        disable_compression: Whether to request uncompressed answers.
        request_timeout_s: For each request, in seconds, `DEFAULT_TIMEOUT_S` for None; 0 for no
            timeout.
    """

    kubeconfig: str | None
    context: str | None
    cluster: str | None
    user: str | None
    server: str | None
    token: str | None
    username: str | None
    password: str | None
    certificate_authority: str | None
    client_certificate: str | None
    client_key: str | None
    insecure_skip_tls_verify: bool
    tls_server_name: str | None
    as_user: str | None
    as_uid: str | None
    as_groups: Sequence[str]
    proxy_url: str | None
    disable_compression: bool
    request_timeout_s: float | None


class Settings(Flags, total=False):
    """The flags, and options of the transport.

    Attributes:
        stubs: The library for gRPC, by default grpcio.
        prefer_protobuf: Whether to prefer protobuf to JSON over HTTP, as by default; it needs the
            extra `grpc`.
    """

    stubs: Stubs
    prefer_protobuf: bool


@dataclass(frozen=True, slots=True)
class Opened(Generic[TransportT]):
    """A transport, with the cache for its snapshots.

    Attributes:
        cache: None for no cache.
        cache_key: Differs by server and user; empty for that of the server for any user.
    """

    transport: TransportT
    cache: SnapshotCache | None
    cache_key: str


def read_server(
    *,
    default_url: str | None = None,
    prefix: str = "",
    terminal: bool = False,
    **flags: Unpack[Flags],
) -> Server:
    """Return the server of the flags, else of a kubeconfig, else of the cluster of this pod.

    With `server` and none of `kubeconfig`, `context`, `cluster` and `user` no kubeconfig is read,
    so that its credentials go to no other server. Otherwise flags override the kubeconfig, as with
    kubectl.

    Args:
        default_url: The server when nothing else names one.
        prefix: `--` where flags of a command line are meant, for errors; empty for arguments.
        terminal: Whether a plugin may ask the user on the terminal.
        flags: The flags that are set.

    Raises:
        InvalidConfiguration: The message names file or flag, key, and what to do.
    """
    timeout_s = _timeout_s(flags, prefix)
    if url := _url_alone(flags, prefix):
        return Server(
            url=url,
            compress=not flags.get("disable_compression"),
            request_timeout_s=timeout_s or None,
        )
    return server_of(_connection(flags, default_url, prefix, terminal=terminal), timeout_s)


def server_of(found: "Connection", timeout_s: float | None = None) -> Server:
    """Return the server of a connection, with a request timeout as in `Flags`."""
    from apidiscovery_client._kube_access import KubeAccess  # noqa: PLC0415 - few need it

    return Server(
        url=found.url,
        access=KubeAccess(found),
        proxy_url=found.proxy_url,
        tls_server_name=found.tls.server_name or None,
        compress=found.compress,
        request_timeout_s=DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s or None,
    )


def _timeout_s(flags: Flags, prefix: str) -> float:
    """Return the request timeout, 0 for none.

    Raises:
        InvalidConfiguration: It is not a number of seconds.
    """
    given = cast("object", flags.get("request_timeout_s"))
    if given is None:
        return DEFAULT_TIMEOUT_S
    if (
        not isinstance(given, int | float)
        or isinstance(given, bool)
        or not math.isfinite(given)
        or given < 0
    ):
        name = "--request-timeout" if prefix else "request_timeout_s"
        raise InvalidConfiguration(
            f"{name}: want seconds as a number, such as 5 or 0.5, or 0 for no timeout;"
            f" got {given!r}"
        )
    return given


def read_grpc_server(
    address: str,
    *,
    plaintext: bool,
    for_grpclib: bool = False,
    prefix: str = "",
    terminal: bool = False,
    **flags: Unpack[Flags],
) -> "GrpcServer":
    """Return a gRPC server, with the credentials of the flags or the kubeconfig that they name.

    Of a plugin's credentials it gets tokens, not certificates.

    Args:
        address: `host:port`.
        plaintext: Whether to connect without TLS.
        for_grpclib: Whether to set up TLS for grpclib instead of grpcio.
        prefix: `--` where flags of a command line are meant, for errors; empty for arguments.
        terminal: Whether a plugin may ask the user on the terminal.
        flags: The flags that are set.

    Raises:
        InvalidConfiguration: As `read_server`; or certificates are not to be verified, which gRPC
            cannot do; or the extra `grpc` is not installed.
    """
    require_grpc()
    from apidiscovery_client._grpc.calls import grpc_server  # noqa: PLC0415 - it imports grpc

    scheme = "http" if plaintext else "https"
    named: Flags = {**flags, "server": f"{scheme}://{address}"}
    found = _connection(named, None, prefix, terminal=terminal)
    if found.tls.insecure:
        name = overrides_of({}, prefix).name_of("insecure-skip-tls-verify")
        raise InvalidConfiguration(
            f"{name}: gRPC always checks certificates; name the authority instead"
        )
    return grpc_server(address, found, _timeout_s(flags, prefix), for_grpclib=for_grpclib)


def open_async(
    target: str | Server | AsyncTransport | None = None,
    *,
    cache: bool | SnapshotCache = False,
    cache_key: str = "",
    **settings: Unpack[Settings],
) -> Opened[AsyncTransport]:
    """Return a transport for asyncio; nothing is sent yet.

    Raises:
        TypeError: There is no setting of such a name.
        InvalidConfiguration: What is configured cannot be used.
    """
    return _opened(target, (cache, cache_key), settings, _ASYNC)


def open_blocking(
    target: str | Server | Transport | None = None,
    *,
    cache: bool | SnapshotCache = False,
    cache_key: str = "",
    **settings: Unpack[Settings],
) -> Opened[Transport]:
    """Return a blocking transport; in all else as `open_async`."""
    return _opened(target, (cache, cache_key), settings, _BLOCKING)


def _opened(
    target: object,
    kept: tuple[bool | SnapshotCache, str],
    settings: Settings,
    classes: Mapping[str, str],
) -> Opened[Any]:
    from apidiscovery_client import transports  # noqa: PLC0415 - imports the one that is needed

    refuse_unknown(settings, Settings.__optional_keys__, _OF_CLIENTS)
    stubs, prefer_protobuf, flags = _split_settings(settings)
    if (address := _grpc_address(target)) is not None:
        for_grpclib = stubs == "betterproto" and classes is _ASYNC
        grpc_server = _grpc_target(address, flags, for_grpclib=for_grpclib)
        transport = getattr(transports, classes[stubs])(grpc_server)
        return Opened(transport, *_place(*kept, lambda: _grpc_key(grpc_server)))
    if not (target is None or isinstance(target, str | Server)):
        _refuse_flags(flags)
        return Opened(target, *_place(*kept, lambda: ""))
    server = http_target(target, flags)
    options = transports.HttpOptions(protobuf=prefer_protobuf)
    transport = getattr(transports, classes["http"])(server, options)
    return Opened(transport, *_place(*kept, lambda: key_in_cache(server)))


def server_of_cluster() -> Server:
    """Return the API server of the cluster that this process is a pod of.

    Raises:
        InvalidConfiguration: There is none, or its service account cannot be used.
    """
    from apidiscovery_kubeconfig.kubeconfig import in_cluster  # noqa: PLC0415 - few are in one

    from apidiscovery_client._kube_access import KubeAccess, translated  # noqa: PLC0415 - the same

    with translated():
        found = in_cluster()
    return Server(url=found.url, access=KubeAccess(found))


def key_in_cache(server: "Server | GrpcServer") -> str:
    """Return the key of a server and its credentials in caches."""
    if not isinstance(server, Server):
        return _grpc_key(server)
    from apidiscovery_client.cache.keys import key_of  # noqa: PLC0415 - where there is a cache

    return key_of(server)


def _place(
    cache: bool | SnapshotCache,  # noqa: FBT001 - as its callers have it
    named: str,
    key: Callable[[], str],
) -> tuple[SnapshotCache | None, str]:
    """Return the cache and the key in it."""
    if cache is False:
        return None, ""
    if cache is True:
        from apidiscovery_client.cache import DiskCache  # noqa: PLC0415 - where there is one

        cache = DiskCache()
    return cache, named or key()


def refuse_unknown(
    given: Mapping[str, object], known: Collection[str], others: Collection[str] = ()
) -> None:
    """Refuse keyword arguments of unknown names: a server other than the intended one might answer.

    Args:
        given: The arguments that a function takes as `**`.
        known: Their names.
        others: The names of its other arguments, which may be meant too.

    Raises:
        TypeError: As Python raises it for functions that name their arguments.
    """
    for name in given:
        if name not in known:
            import difflib  # noqa: PLC0415 - slow, and only for mistakes

            close = difflib.get_close_matches(name, sorted({*known, *others}), 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise TypeError(f"unexpected keyword argument {name!r}{hint}")


def _split_settings(settings: Settings) -> tuple[Stubs, bool, Flags]:
    flags: dict[str, object] = {**settings}
    stubs = settings.get("stubs", "grpcio")
    prefer_protobuf = settings.get("prefer_protobuf", True)
    flags.pop("stubs", None)
    flags.pop("prefer_protobuf", None)
    return stubs, prefer_protobuf, cast("Flags", flags)


def _refuse_flags(flags: Flags) -> None:
    if any(flags.values()):
        raise InvalidConfiguration(
            "the server is configured already; pass a URL instead, or omit"
            f" {', '.join(name for name, value in flags.items() if value)}"
        )


def _grpc_key(server: "GrpcServer") -> str:
    from apidiscovery_client.cache.keys import key  # noqa: PLC0415 - where there is a cache

    identity = server.access.identity if server.access else ""
    has_tls = server.credentials is not None or server.context is not None
    scheme = "grpcs" if has_tls else "grpc"
    return key(f"{scheme}://{server.address}", identity, route=server.tls_server_name or "")


def _url_alone(flags: Flags, prefix: str) -> str:
    """Return the URL of a plain HTTP server that needs no credentials; else an empty string.

    Such a server needs no kubeconfig, whose modules take long to import.
    """
    url = flags.get("server") or ""
    others = (value for name, value in flags.items() if name not in _NOT_OF_IDENTITY)
    if not url.startswith("http:") or any(others):
        return ""
    from apidiscovery_kubeconfig.addresses import server_url  # noqa: PLC0415 - where it is all
    from apidiscovery_kubeconfig.errors import ConfigurationError  # noqa: PLC0415 - the same

    try:
        return server_url(url, f"{prefix}server")
    except ConfigurationError as error:
        raise InvalidConfiguration(str(error)) from None


def _connection(
    flags: Flags, default_url: str | None, prefix: str, *, terminal: bool
) -> "Connection":
    from apidiscovery_kubeconfig.errors import NothingConfigured  # noqa: PLC0415 - they all take
    from apidiscovery_kubeconfig.kubeconfig import (  # noqa: PLC0415 - as long as a request
        read_kubeconfig,
        without_kubeconfig,
    )

    from apidiscovery_client._kube_access import translated  # noqa: PLC0415 - the same

    overrides = overrides_of(flags, prefix)
    kubeconfig, context = flags.get("kubeconfig"), flags.get("context")
    is_named = kubeconfig or context or overrides.cluster or overrides.user
    with translated():
        if overrides.server and not is_named:
            return without_kubeconfig(overrides)
        try:
            return read_kubeconfig(kubeconfig, context, overrides, terminal=terminal).connection
        except NothingConfigured:
            if default_url is None or is_named:
                raise
        return without_kubeconfig(overrides_of({**flags, "server": default_url}, prefix))


def overrides_of(flags: Flags, prefix: str = "") -> "Overrides":
    from apidiscovery_kubeconfig.kubeconfig import Overrides  # noqa: PLC0415 - the same

    return Overrides(
        cluster=flags.get("cluster") or "",
        user=flags.get("user") or "",
        server=flags.get("server") or "",
        certificate_authority=flags.get("certificate_authority") or "",
        insecure_skip_tls_verify=flags.get("insecure_skip_tls_verify", False),
        tls_server_name=flags.get("tls_server_name") or "",
        proxy_url=flags.get("proxy_url") or "",
        disable_compression=flags.get("disable_compression", False),
        token=flags.get("token") or "",
        username=flags.get("username") or "",
        password=flags.get("password") or "",
        client_certificate=flags.get("client_certificate") or "",
        client_key=flags.get("client_key") or "",
        impersonate=flags.get("as_user") or "",
        impersonate_uid=flags.get("as_uid") or "",
        impersonate_groups=tuple(flags.get("as_groups", ())),
        prefix=prefix,
    )


def http_target(target: str | Server | None, flags: Flags, prefix: str = "") -> Server:
    """Return the server that a URL names, else that of the flags or of a kubeconfig.

    Raises:
        InvalidConfiguration: What is configured cannot be used.
    """
    if isinstance(target, Server):
        _refuse_flags(flags)
        return target
    if target is None:
        return read_server(prefix=prefix, **flags)
    scheme, separator, _ = target.partition("://")
    if separator and scheme.lower() not in _SCHEMES:
        wanted = ", ".join(f"{each}://" for each in _SCHEMES)
        raise InvalidConfiguration(f"want a URL of {wanted} or grpcs://, got {scheme}://")
    named: Flags = {**flags, "server": target if separator else f"http://{target}"}
    return read_server(prefix=prefix, **named)


def grpc_target(target: object, flags: Flags) -> "GrpcServer | None":
    """Return the server for grpcio that a URL names; None for a target that is not gRPC.

    Raises:
        InvalidConfiguration: What is configured cannot be used.
    """
    address = _grpc_address(target)
    return None if address is None else _grpc_target(address, flags)


def _grpc_address(target: object) -> tuple[str, bool] | None:
    """Return `host:port` and whether it is without TLS; None for a target that is not gRPC."""
    if isinstance(target, str):
        scheme, separator, address = target.partition("://")
        if separator and scheme.lower() in ("grpc", "grpcs"):
            return address.rstrip("/"), scheme.lower() == "grpc"
    return None


def _grpc_target(
    address: tuple[str, bool], flags: Flags, *, for_grpclib: bool = False
) -> "GrpcServer":
    host, _, port = address[0].rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise InvalidConfiguration(
            f"want a gRPC server such as grpc://127.0.0.1:50051, got grpc://{address[0]}"
        )
    return read_grpc_server(address[0], plaintext=address[1], for_grpclib=for_grpclib, **flags)
