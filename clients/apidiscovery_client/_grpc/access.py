"""gRPC servers, reached with what a kubeconfig or the like names."""

from typing import TYPE_CHECKING

import grpc
from apidiscovery_kubeconfig.connection import Connection
from apidiscovery_kubeconfig.tls import Tls

from apidiscovery_client._grpc.calls import GrpcServer
from apidiscovery_client._kube_access import KubeAccess, translated

if TYPE_CHECKING:  # for one of the two libraries alone
    import ssl


def grpc_server(
    address: str,
    found: Connection,
    timeout_s: float | None,
    *,
    for_grpclib: bool,
) -> GrpcServer:
    """Return a server to which we are who `found` says, with TLS if its URL is https.

    Certificates are those of now: a connection of gRPC is not made anew when a file changes.

    Raises:
        InvalidConfiguration: A file cannot be used.
    """
    has_tls = found.url.startswith("https:")
    with translated():
        credentials = _credentials(found.tls) if has_tls and not for_grpclib else None
        context = _context(found.tls) if has_tls and for_grpclib else None
    return GrpcServer(
        address=address,
        credentials=credentials,
        context=context,
        tls_server_name=found.tls.server_name or None,
        access=KubeAccess(found),
        request_timeout_s=timeout_s or None,
    )


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    pair = tls.own_certificate()
    return grpc.ssl_channel_credentials(
        root_certificates=tls.ca.read() if tls.ca else None,
        private_key=pair.key if pair else None,
        certificate_chain=pair.certificate if pair else None,
    )


def _context(tls: Tls) -> "ssl.SSLContext":
    from apidiscovery_kubeconfig.contexts import make_context  # noqa: PLC0415 - it imports ssl

    return make_context(tls, None, shared=False)
