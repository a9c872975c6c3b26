"""APIServices: the API servers of group-versions.

Source: k8s.io/kube-aggregator pkg/apis/apiregistration/v1/types.go.
"""

import base64
import binascii
import re
from dataclasses import dataclass

from apidiscovery_service.sources.fields import (
    Fields,
    Findings,
    Node,
    label_1035_errors,
    port_errors,
    subdomain_errors,
)

DEFAULT_PORT = 443

_MAX_GROUP_PRIORITY = 20000
_MAX_VERSION_PRIORITY = 1000
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----\s[^-]*-----END CERTIFICATE-----")

_SPEC = (
    "service",
    "group",
    "version",
    "insecureSkipTLSVerify",
    "caBundle",
    "groupPriorityMinimum",
    "versionPriority",
)
_CONDITION = ("type", "status", "lastTransitionTime", "reason", "message")


@dataclass(frozen=True, slots=True)
class ServiceReference:
    """A Service of Kubernetes."""

    namespace: str
    name: str
    port: int = DEFAULT_PORT


@dataclass(frozen=True, slots=True)
class ApiService:
    """An APIService of apiregistration.k8s.io/v1.

    Attributes:
        name: `<version>.<group>`, such as `v1.example.com`.
        group_priority: groupPriorityMinimum.
        service: None if the server that reads this serves the group-version itself.
        ca_bundle: PEM; empty for the system's certificate authorities.
    """

    name: str
    group: str
    version: str
    group_priority: int
    version_priority: int
    service: ServiceReference | None = None
    ca_bundle: bytes = b""
    insecure_skip_tls_verify: bool = False


def read_api_service(node: Node) -> ApiService:
    """Return an APIService.

    Source of the rules: pkg/apis/apiregistration/validation/validation.go:ValidateAPIService. That
    the bundle has certificates is our own rule, since it would fail only when used.

    Raises:
        InvalidField: A field is not valid in Kubernetes; `others` has the further ones.
    """
    findings = Findings()
    top = Fields(node, findings, ("kind", "apiVersion", "metadata", "spec", "status"))
    metadata = top.object("metadata")
    spec = top.required_object("spec", *_SPEC)
    read = ApiService(
        name=metadata.text("name") if metadata else "",
        group=spec.text("group"),
        version=spec.text("version"),
        group_priority=spec.integer("groupPriorityMinimum") or 0,
        version_priority=spec.integer("versionPriority") or 0,
        service=_service(spec),
        ca_bundle=_ca_bundle(spec),
        insecure_skip_tls_verify=spec.flag("insecureSkipTLSVerify"),
    )
    _check_name(read, top)
    _check_priorities(read, spec)
    _check_connection(read, spec)
    _check_status(top)
    findings.raise_any()
    return read


def _service(spec: Fields) -> ServiceReference | None:
    service = spec.object("service", "namespace", "name", "port")
    if service is None:
        return None
    port = service.integer("port")
    return ServiceReference(
        service.text("namespace"), service.text("name"), DEFAULT_PORT if port is None else port
    )


def _ca_bundle(spec: Fields) -> bytes:
    """Return the bundle; empty if it is absent or not valid."""
    text, path = spec.text("caBundle"), spec.at("caBundle")
    try:
        bundle = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        spec.findings.invalid_hidden(path, "want certificates in PEM, encoded in base64")
        return b""
    if bundle and not _CERTIFICATE.search(bundle):
        spec.findings.invalid_hidden(path, f"{len(bundle)} bytes without a certificate in PEM")
        return b""
    return bundle


def _check_name(read: ApiService, top: Fields) -> None:
    findings, path, wanted = (
        top.findings,
        top.at("metadata", "name"),
        f"{read.version}.{read.group}",
    )
    if not read.name:
        findings.required(path, "name or generateName is required")
    elif read.name != wanted:
        message = f'must be `spec.version+"."+spec.group`: "{wanted}"'
        findings.invalid(path, read.name, message)
    if not read.group and read.version != "v1":
        message = "only v1 may have an empty group and it better be legacy kube"
        findings.required(top.at("spec", "group"), message)
    if read.group:
        for error in subdomain_errors(read.group):
            findings.invalid(top.at("spec", "group"), read.group, error)
    for error in label_1035_errors(read.version):
        findings.invalid(top.at("spec", "version"), read.version, error)


def _check_priorities(read: ApiService, spec: Fields) -> None:
    for name, value, most in (
        ("groupPriorityMinimum", read.group_priority, _MAX_GROUP_PRIORITY),
        ("versionPriority", read.version_priority, _MAX_VERSION_PRIORITY),
    ):
        if not 1 <= value <= most:
            spec.findings.invalid(spec.at(name), value, f"must be positive and less than {most}")


def _check_connection(read: ApiService, spec: Fields) -> None:
    findings, insecure = spec.findings, spec.at("insecureSkipTLSVerify")
    if read.service is None:
        if read.ca_bundle:
            size = f"{len(read.ca_bundle)} bytes"
            message = "local APIServices may not have a caBundle"
            findings.invalid(spec.at("caBundle"), size, message)
        if read.insecure_skip_tls_verify:
            message = "local APIServices may not have insecureSkipTLSVerify"
            findings.invalid(insecure, read.insecure_skip_tls_verify, message)
        return
    for name, value in (("namespace", read.service.namespace), ("name", read.service.name)):
        if not value:
            findings.required(spec.at("service", name))
    if errors := port_errors(read.service.port):
        message = f"port is not valid: {', '.join(errors)}"
        findings.invalid(spec.at("service", "port"), read.service.port, message)
    if read.insecure_skip_tls_verify and read.ca_bundle:
        message = "may not be true if caBundle is present"
        findings.invalid(insecure, read.insecure_skip_tls_verify, message)


def _check_status(top: Fields) -> None:
    """Check the status, though nothing here depends on it."""
    status = top.object("status", "conditions")
    for condition in status.objects("conditions", *_CONDITION) if status else ():
        for name in _CONDITION:
            condition.text(name)
