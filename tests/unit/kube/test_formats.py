"""Validation of names, labels and versions."""

import pytest
from apidiscovery_service.kube.objects import formats
from hypothesis import given
from hypothesis import strategies as st

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    r"for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_1035 = (
    "must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used "
    "for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", ["name must be in the form of <group>.<resource>"]),
        ("pods", ["name must be in the form of <group>.<resource>"]),
        ("core.pods", []),
        ("authentication.k8s.io.tokenreviews", []),
        (f"{'x' * 253}.tokenreviews", []),
        (f"{'x' * 254}.tokenreviews", ["the group segment must be no more than 253 bytes"]),
        (f"authentication.k8s.io.{'x' * 63}", []),
        (
            f"authentication.k8s.io.{'x' * 64}",
            ["the resource segment must be no more than 63 bytes"],
        ),
        (
            "_.9",
            [
                f"the group segment {SUBDOMAIN}",
                f"the resource segment a DNS-1035 label {LABEL_1035}",
            ],
        ),
        ("core.pods\n", [f"the resource segment a DNS-1035 label {LABEL_1035}"]),
    ],
)
def test_a_name_is_group_and_resource(name: str, expected: list[str]) -> None:
    assert formats.storage_version_name(name) == expected


DNS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?(\.[a-z0-9]{1,5}){0,3}", fullmatch=True)
DNS_1035 = st.from_regex(r"[a-z]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)


@given(DNS, DNS_1035)
def test_every_group_and_resource_make_a_name_and_a_version(group: str, resource: str) -> None:
    assert formats.storage_version_name(f"{group}.{resource}") == []
    assert formats.api_version(f"{group}/{resource}") == []


@given(st.text())
def test_a_label_value_that_is_not_empty_is_a_label_key(text: str) -> None:
    if text and "/" not in text:
        assert bool(formats.label_value(text)) == bool(formats.qualified_name(text))
