"""What a plugin gives, an ExecCredential: read, checked, and kept for as long as it says.

Source: client-go plugin/pkg/client/auth/exec/exec.go `refreshCredsLocked`.
"""

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

from apidiscovery_kubeconfig.credentials import ClientCertificate, Proof, bearer
from apidiscovery_kubeconfig.errors import ConfigurationError
from apidiscovery_kubeconfig.fields import Fields
from apidiscovery_kubeconfig.plugins import Plugin
from apidiscovery_kubeconfig.tls import Tls

LEEWAY_S = 10.0  # renewed this long before the end, or a fifth of the lifetime if that is less


@dataclass(frozen=True, slots=True)
class Issued:
    """What the plugin gave.

    Attributes:
        fresh_until: Seconds since the epoch; None for ever.
    """

    proof: Proof
    fresh_until: float | None


def read_credential(output: bytes, plugin: Plugin) -> Issued:
    """Return what an ExecCredential holds; an error does not quote it."""
    try:
        value = cast("object", json.loads(output))
        return _issued(Fields(value, "the ExecCredential."), plugin)
    except (ValueError, RecursionError):
        raise plugin.failed("want an ExecCredential in JSON, got something else") from None
    except ConfigurationError as error:
        raise plugin.failed(str(error)) from None


def _issued(credential: Fields, plugin: Plugin) -> Issued:
    """Return what an ExecCredential holds; raise `ConfigurationError`.

    Source: exec.go `refreshCredsLocked`.
    """
    kind, api_version = credential.text("kind"), credential.text("apiVersion")
    if (kind, api_version) != ("ExecCredential", plugin.api_version):
        raise ConfigurationError(
            f"want an ExecCredential of {plugin.api_version}, as configured,"
            f" got {kind[:100] or 'no kind'} of {api_version[:100] or 'no apiVersion'}"
        )
    status = credential.inner("status")
    token, certificate = status.text("token"), status.text("clientCertificateData")
    key = status.text("clientKeyData")
    if bool(certificate) != bool(key):
        raise ConfigurationError("gave a certificate or a key, want both")
    if not token and not certificate:
        raise ConfigurationError("gave no token and no certificate with its key")
    pair = ClientCertificate(certificate.encode(), key.encode()) if certificate else None
    if pair is not None:
        Tls().context(pair)
    proof = Proof(bearer(token, status.where("token")) if token else None, pair)
    return Issued(proof, _fresh_until(status))


def _fresh_until(status: Fields) -> float | None:
    expiration = status.text("expirationTimestamp")
    if not expiration:
        return None
    try:
        end = datetime.fromisoformat(expiration)
    except ValueError:
        raise status.wrong("expirationTimestamp", "no time as RFC 3339 has it") from None
    end_s = (end if end.tzinfo else end.replace(tzinfo=UTC)).timestamp()
    lifetime_s = max(0.0, end_s - time.time())
    return end_s - min(LEEWAY_S, lifetime_s / 5)
