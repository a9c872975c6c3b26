"""Documents of strangers cost a bounded time, and never hold what else is done."""

import json

import pytest
from apidiscovery_service.sources.upstreams.failure import UpstreamFailed
from apidiscovery_service.sources.upstreams.openapi_check import check


def _document(**schemas: object) -> bytes:
    return json.dumps({"openapi": "3.0.0", "components": {"schemas": schemas}}).encode()


def _refs(count: int) -> list[object]:
    return [{"$ref": f"#/components/schemas/A/{number}"} for number in range(count)]


def test_references_are_bounded() -> None:
    some = {f"S{number}": _refs(10_000) for number in range(3)}
    check(_document(A={}, **some), 60.0)
    many = {
        f"S{number}": [{"$ref": f"#/components/schemas/A/{number}-{i}"} for i in range(9_000)]
        for number in range(12)
    }
    with pytest.raises(UpstreamFailed, match="more than 100000 references"):
        check(_document(A={}, **many), 60.0)


def test_a_schema_that_is_larger_than_any_definition_is_refused() -> None:
    texts = {f"x-{number}": "x" * 500_000 for number in range(5)}
    check(_document(A=dict(list(texts.items())[:4])), 60.0)
    with pytest.raises(UpstreamFailed, match=r"\$.components.schemas.A: .* of more than 2097152"):
        check(_document(A=texts), 60.0)


def test_an_object_that_is_wider_than_any_definition_is_refused() -> None:
    wide = {f"field{number}": {"type": "string"} for number in range(50_000)}
    with pytest.raises(UpstreamFailed, match=r"\$.components.schemas.A.properties: want at most"):
        check(_document(A={"properties": wide}), 60.0)
    with pytest.raises(UpstreamFailed, match=r"\$.components.schemas.A.description: want a text"):
        check(_document(A={"description": "<" * 900_000}), 60.0)
