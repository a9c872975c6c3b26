"""Content-Type headers, and the aggregated documents that they name."""

import pytest
from apidiscovery_formats.media_types import MediaType, aggregated, parse_media_type


@pytest.mark.parametrize(
    ("header", "parsed"),
    [
        pytest.param("application/json", MediaType("application/json", {}), id="bare"),
        pytest.param("Text/HTML; A=B", MediaType("text/html", {"a": "B"}), id="case"),
        pytest.param("a/b ; x=1;y=2 ;", MediaType("a/b", {"x": "1", "y": "2"}), id="spaces"),
        pytest.param(r'a/b;x="1;\"2"', MediaType("a/b", {"x": '1;"2'}), id="quoted"),
        pytest.param('a/b;x=""', MediaType("a/b", {"x": ""}), id="quoted and empty"),
        pytest.param("a/b;x=1;X=2", None, id="twice"),
        pytest.param("a/b;x", None, id="no value"),
        pytest.param("a/b;=x", None, id="no name"),
        pytest.param('a/b;x="1', None, id="quote not closed"),
        pytest.param("json", None, id="no subtype"),
        pytest.param("a/b, c/d", None, id="two"),
        pytest.param("", None, id="empty"),
    ],
)  # fmt: skip
def test_media_types_are_parsed_as_go_does(header: str, parsed: MediaType | None) -> None:
    assert parse_media_type(header) == parsed


@pytest.mark.parametrize(
    ("header", "version"),
    [
        pytest.param(aggregated("application/json", "v2"), "v2", id="as written"),
        pytest.param(
            'a/b; AS=APIGroupDiscoveryList;x=y; v="v9"; g=apidiscovery.k8s.io', "v9", id="reordered"
        ),
        pytest.param("a/b;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList", "", id="no version"),
        pytest.param("a/b;g=other;v=v2;as=APIGroupDiscoveryList", None, id="another group"),
        pytest.param("a/b;v=v2", None, id="version alone"),
    ],
)
def test_aggregated_version(header: str, version: str | None) -> None:
    found = parse_media_type(header)
    assert found is not None
    assert found.aggregated_version == version
