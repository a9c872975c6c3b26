"""Documents of strangers are bounded."""

import json

import pytest
from apidiscovery_service.sources.upstreams.failure import UpstreamFailed
from apidiscovery_service.sources.upstreams.openapi_answers import check


def _document(**schemas: object) -> bytes:
    return json.dumps({"openapi": "3.0.0", "components": {"schemas": schemas}}).encode()


def _refs(count: int) -> list[object]:
    return [{"$ref": f"#/components/schemas/A/{number}"} for number in range(count)]


def test_references_are_bounded() -> None:
    some = {f"S{number}": _refs(10_000) for number in range(3)}
    check(_document(A={}, **some))
    many = {
        f"S{number}": [{"$ref": f"#/components/schemas/A/{number}-{i}"} for i in range(9_000)]
        for number in range(12)
    }
    with pytest.raises(UpstreamFailed, match="more than 100000 references"):
        check(_document(A={}, **many))
