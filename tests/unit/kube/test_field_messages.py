"""Messages about fields show values alike, whoever finds the error."""

import pytest
from apidiscovery_service.kube import field_messages
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects import field_errors
from apidiscovery_service.openapi.crd import problems
from apidiscovery_service.sources.fields import Findings, InvalidField
from apidiscovery_service.sources.registrations.object_defaults import update_violations
from apidiscovery_service.sources.registrations.record import Object


def _of_manifest(value: object) -> str:
    findings = Findings()
    findings.invalid(("f",), value, "d")
    with pytest.raises(InvalidField) as caught:
        findings.raise_any()
    return str(caught.value)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param("a<b&é", '"a<b&é"', id="printable"),
        pytest.param("a\u200bb\x7f", r'"a\u200bb\x7f"', id="not printable"),
        pytest.param('a"\\\n', r'"a\"\\\n"', id="escapes of Go"),
        pytest.param(["<"], r'["\u003c"]', id="others are JSON as Go writes it"),
    ],
)
def test_strings_are_quoted_as_by_go(value: JSONValue, shown: str) -> None:
    message = f"Invalid value: {shown}: d"
    assert field_errors.invalid("f", value, "d").message == message
    assert problems.invalid(value, "d") == message
    assert _of_manifest(value) == message


def test_an_immutable_field_shows_the_value_alike() -> None:
    established: JSONValue = {"conditions": [{"type": "Established", "status": "True"}]}
    current: Object = {"spec": {"scope": "Cluster"}, "status": established}
    found = update_violations({"spec": {"scope": "é<"}}, current)
    assert list(found) == [("spec.scope", 'Invalid value: "é<": field is immutable')]


def test_supported_values_are_quoted() -> None:
    message = 'Unsupported value: "<": supported values: "a", "\\""'
    assert field_messages.unsupported("<", ["a", '"']) == message
    assert problems.unsupported("<", ["a", '"']) == message


def test_what_no_go_string_holds_is_shown_too() -> None:
    assert field_messages.shown([10**30, "\ud800"]) == f'[{10**30},"\\ud800"]'
    assert field_messages.shown("x" * 9, 4) == '"xxx...'
