"""Reading and validation of APIServices."""

import base64

import pytest
from apidiscovery_service.sources.api_service import (
    ApiService,
    ServiceReference,
    read_api_service,
)
from apidiscovery_service.sources.fields import InvalidField, Node
from crd_manifests import API_SERVICE, edited, told

PEM = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
BUNDLE = base64.b64encode(PEM).decode()


def read(document: object) -> ApiService:
    return read_api_service(Node(document))


def test_the_fields_of_an_upstream_are_read() -> None:
    found = read(edited(API_SERVICE, "spec.caBundle", BUNDLE))
    assert (found.name, found.group, found.version) == (
        "v1.remote.example.com",
        "remote.example.com",
        "v1",
    )
    assert (found.group_priority, found.version_priority) == (2000, 20)
    assert found.service == ServiceReference("default", "remote", 443)
    assert (found.ca_bundle, found.insecure_skip_tls_verify) == (PEM, False)


def test_port_and_insecure_skip_tls_verify_are_read() -> None:
    document = edited(API_SERVICE, "spec.service.port", 8443)
    found = read(edited(document, "spec.insecureSkipTLSVerify", value=True))
    assert found.service == ServiceReference("default", "remote", 8443)
    assert found.insecure_skip_tls_verify


def test_a_local_api_service_has_no_service() -> None:
    document = edited(edited(API_SERVICE, "spec.service", None), "spec.group", ...)
    assert read(edited(document, "metadata.name", "v1.")).service is None


WITH_BUNDLE = edited(API_SERVICE, "spec.caBundle", BUNDLE)
LOCAL = edited(API_SERVICE, "spec.service", ...)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (edited(API_SERVICE, "spec", ...), "spec: Required value"),
        (edited(API_SERVICE, "metadata.name", ...), "metadata.name: Required value: name or"),
        (
            edited(API_SERVICE, "metadata.name", "v1.x"),
            (
                'metadata.name: Invalid value: "v1.x": must be `spec.version+"."+spec.group`: '
                '"v1.remote.example.com"'
            ),
        ),
        (
            edited(API_SERVICE, "spec.version", "V1"),
            'spec.version: Invalid value: "V1": a DNS-1035',
        ),
        (edited(API_SERVICE, "spec.group", "A"), 'spec.group: Invalid value: "A": a lowercase RFC'),
        (
            edited(edited(API_SERVICE, "spec.group", ...), "spec.version", "v2"),
            "spec.group: Required value: only v1 may have an empty group",
        ),
        (
            edited(API_SERVICE, "spec.groupPriorityMinimum", ...),
            "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
        ),
        (
            edited(API_SERVICE, "spec.groupPriorityMinimum", 20001),
            "spec.groupPriorityMinimum: Invalid value: 20001: must be positive",
        ),
        (
            edited(API_SERVICE, "spec.versionPriority", 1001),
            "spec.versionPriority: Invalid value: 1001: must be positive and less than 1000",
        ),
        (
            edited(API_SERVICE, "spec.versionPriority", "20"),
            "spec.versionPriority: want an integer of 32 bits, got a string",
        ),
        (
            edited(API_SERVICE, "spec.service.namespace", ...),
            "spec.service.namespace: Required value",
        ),
        (edited(API_SERVICE, "spec.service.name", ""), "spec.service.name: Required value"),
        (
            edited(API_SERVICE, "spec.service.port", 0),
            "spec.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535",
        ),
        (edited(API_SERVICE, "spec.service.url", "x"), "spec.service.url: unknown field"),
        (
            edited(WITH_BUNDLE, "spec.insecureSkipTLSVerify", value=True),
            "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is",
        ),
        (edited(API_SERVICE, "spec.caBundle", "%"), "spec.caBundle: Invalid value: want cert"),
        (
            edited(API_SERVICE, "spec.caBundle", base64.b64encode(b"text").decode()),
            "spec.caBundle: Invalid value: 4 bytes without a certificate in PEM",
        ),
        (
            edited(LOCAL, "spec.caBundle", BUNDLE),
            f'spec.caBundle: Invalid value: "{len(PEM)} bytes": local APIServices may not have',
        ),
        (
            edited(LOCAL, "spec.insecureSkipTLSVerify", value=True),
            "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have",
        ),
        (
            edited(API_SERVICE, "status", {"conditions": [{"status": 1}]}),
            "status.conditions[0].status: want a string",
        ),
    ],
)
def test_violations_have_the_words_of_kubernetes(document: object, message: str) -> None:
    with pytest.raises(InvalidField) as caught:
        read(document)
    errors = told(caught.value)
    assert any(error.startswith(message) for error in errors), errors
