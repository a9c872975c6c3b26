"""Credentials and trust from a kubeconfig or from flags."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from apidiscovery_kubeconfig.connection import Connection
from apidiscovery_kubeconfig.credentials import Proof
from apidiscovery_kubeconfig.errors import ConfigurationError

from apidiscovery_client._errors import InvalidConfiguration
from apidiscovery_client._server import Headers

if TYPE_CHECKING:  # only servers with TLS need them
    import ssl

    from apidiscovery_kubeconfig.ssl_contexts import RenewedContext


@contextmanager
def translated() -> Generator[None]:
    """Raise `InvalidConfiguration` for errors of a kubeconfig."""
    try:
        yield
    except ConfigurationError as error:
        raise InvalidConfiguration(str(error)) from None


class KubeAccess:
    """Credentials and trust as kubectl has them; an `Access`.

    A token file is read for each request, a plugin is run when what it gave expires, and a
    certificate file that has changed makes another context.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._context: RenewedContext | None = None
        self._shown = Proof()

    @property
    def identity(self) -> str:
        """Identify files by their paths and inline values by a digest; no file is read."""
        tls, whom = self._connection.tls, self._connection.impersonation
        trust = "insecure" if tls.insecure else tls.ca.identity if tls.ca else ""
        certificate = tls.certificate.identity if tls.certificate else ""
        seen_as = [whom.user, whom.uid, whom.groups, sorted(whom.extra.items())] if whom else []
        return json.dumps([self._connection.credentials.identity, certificate, trust, seen_as])

    def headers(self) -> Headers:
        """Return the headers of one request, from the current credentials.

        Raises:
            InvalidConfiguration: There are none, such as when a plugin fails.
        """
        proof = self._proof()
        self._shown = proof
        lines: list[tuple[str, str]] = []
        if proof.authorization is not None:
            lines.append(("Authorization", proof.authorization))
        if self._connection.impersonation is not None:
            lines += self._connection.impersonation.lines()
        return tuple(lines)

    def tls(self) -> "ssl.SSLContext | None":
        """Return the current context, None for a server without TLS; raise as `headers`."""
        if not self._connection.url.startswith("https:"):
            return None
        if self._context is None:
            from apidiscovery_kubeconfig.ssl_contexts import RenewedContext  # noqa: PLC0415 - has ssl

            self._context = RenewedContext(self._connection.tls, shared=False)
        with_certificate = self._connection.credentials.gives_certificates
        certificate = self._proof().certificate if with_certificate else None
        with translated():
            return self._context.current(certificate)

    def refused(self) -> bool:
        """Drop the credentials of `headers`, and return whether there are other ones.

        A plugin is run for that.
        Source: client-go plugin/pkg/client/auth/exec/exec.go `maybeRefreshCreds`.
        """
        refused = self._shown
        self._connection.credentials.drop(refused.authorization)
        return self._proof() != refused

    def close(self) -> None:
        """End a plugin that runs for another thread."""
        self._connection.credentials.close()

    def _proof(self) -> Proof:
        with translated():
            return self._connection.credentials.cached() or self._connection.credentials.get()
