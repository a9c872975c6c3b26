"""Who a client certificate says that its holder is.

Source: k8s.io/apiserver pkg/authentication/request/x509/x509.go:CommonNameUserConversion: the
common name is the user, each organization a group, and without a common name there is no user.
"""

import ssl
from collections.abc import Mapping
from typing import TypeAlias, cast

from apidiscovery_service.access import Caller

_Subject: TypeAlias = tuple[tuple[tuple[str, str], ...], ...]


def certificate_caller(certificate: Mapping[str, object] | None) -> Caller | None:
    """Return the user of a certificate, as `ssl.SSLObject.getpeercert()` returns it.

    Returns:
        None when there is no certificate, or no common name in it.
    """
    if not certificate:
        return None
    subject = cast("_Subject", certificate.get("subject", ()))
    pairs = [pair for relative_name in subject for pair in relative_name]
    # Of several common names Go takes the last.
    names = [value for name, value in pairs if name == "commonName"]
    if not names or not names[-1]:
        return None
    groups = tuple(value for name, value in pairs if name == "organizationName")
    return Caller(names[-1], groups)


def valid_until(certificate: Mapping[str, object]) -> float:
    """Return the last moment of a certificate's validity, in seconds of Unix time."""
    return ssl.cert_time_to_seconds(str(certificate["notAfter"]))
