"""Resources are chosen and printed as kubectl does."""

import json

import pytest
import yaml
from apidiscovery_client._documents import Discovery, Group, GroupVersion, Resource
from apidiscovery_client._go_yaml import yaml_text
from apidiscovery_client._listing import OUTPUTS, Selection, print_resources, select
from apidiscovery_client._preferred import preferred_resources
from apidiscovery_client._table import table


def resource(name: str, *verbs: str, namespaced: bool = True, **texts: str) -> Resource:
    return Resource(
        name=name,
        singular_name=texts.get("singular_name", ""),
        namespaced=namespaced,
        kind=texts.get("kind", name.capitalize()),
        verbs=verbs,
        short_names=tuple(texts.get("short_names", "").split()),
        categories=tuple(texts.get("categories", "").split()),
    )


CORE_V1 = GroupVersion("", "v1")
# `TestAPIResourcesRun` of kubernetes/kubectl pkg/cmd/apiresources/apiresources_test.go
KUBECTLS = Discovery(
    groups=(Group("", ("v1",), "v1"), Group("somegroup", ("v1",), "v1")),
    resources={
        CORE_V1: (
            resource("foos", "get", "list", namespaced=False, kind="Foo", short_names="f fo",
                     categories="some-category"),
            resource("bars", "get", "list", "create", kind="Bar"),
        ),
        GroupVersion("somegroup", "v1"): (
            resource("bazzes", "get", "list", "create", "delete", kind="Baz", short_names="b",
                     categories="some-category another-category"),
            resource("NoVerbs"),
        ),
    },
    failures={},
)  # fmt: skip


def names(selection: Selection, sort_by: str = "") -> list[str]:
    return [chosen.name for chosen in select(KUBECTLS, selection, sort_by)]


@pytest.mark.parametrize(
    ("selection", "kept"),
    [
        (Selection(), ["bars", "foos", "bazzes"]),
        (Selection(api_group=""), ["bars", "foos"]),
        (Selection(api_group="somegroup"), ["bazzes"]),
        (Selection(namespaced=True), ["bars", "bazzes"]),
        (Selection(namespaced=False), ["foos"]),
        (Selection(verbs=("create", "delete")), ["bazzes"]),
        (Selection(categories=("some-category",)), ["foos", "bazzes"]),
        (Selection(categories=("some-category", "another-category")), ["bazzes"]),
    ],
)
def test_selection(selection: Selection, kept: list[str]) -> None:
    assert names(selection) == kept


def test_sorting() -> None:
    assert names(Selection(), "name") == ["bars", "bazzes", "foos"]
    assert names(Selection(), "kind") == ["bars", "bazzes", "foos"]


def test_table_is_kubectls() -> None:
    assert print_resources(select(KUBECTLS, Selection()), "", headers=True) == (
        "NAME     SHORTNAMES   APIVERSION     NAMESPACED   KIND\n"
        "bars                  v1             true         Bar\n"
        "foos     f,fo         v1             false        Foo\n"
        "bazzes   b            somegroup/v1   true         Baz\n"
    )


def test_table_without_headers_is_as_wide_as_its_cells() -> None:
    assert print_resources(select(KUBECTLS, Selection()), "", headers=False) == (
        "bars            v1             true    Bar\n"
        "foos     f,fo   v1             false   Foo\n"
        "bazzes   b      somegroup/v1   true    Baz\n"
    )


def test_json_is_an_api_resource_list() -> None:
    text = print_resources(select(KUBECTLS, Selection(api_group="somegroup")), "json", headers=True)
    assert text.startswith('{\n    "kind": "APIResourceList",\n    "apiVersion": "v1",\n')
    assert json.loads(text) == {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "",
        "resources": [
            {
                "name": "bazzes",
                "singularName": "",
                "namespaced": True,
                "group": "somegroup",
                "version": "v1",
                "kind": "Baz",
                "verbs": ["get", "list", "create", "delete"],
                "shortNames": ["b"],
                "categories": ["some-category", "another-category"],
            }
        ],
    }


def test_yaml_says_what_json_says() -> None:
    chosen = select(KUBECTLS, Selection())
    as_yaml, as_json = (print_resources(chosen, form, headers=True) for form in ("yaml", "json"))
    assert yaml.safe_load(as_yaml) == json.loads(as_json)


def test_yaml_quotes_as_kubectl_does() -> None:
    nodes = [resource("nodes", "*", "get", short_names="no y 1 n-o")]
    text = print_resources(nodes, "yaml", headers=True)
    assert '  shortNames:\n  - "no"\n  - "y"\n  - "1"\n  - n-o\n' in text
    assert "  verbs:\n  - '*'\n  - get\n" in text


def test_json_escapes_as_go_does() -> None:
    assert '"kind": "\\u003c\\u0026\\u2028é"' in print_resources(
        [resource("a", "get", kind="<&\u2028é")], "json", headers=True
    )


@pytest.mark.parametrize("output", ["", "wide", "name"])
def test_terminal_is_safe_from_names(output: str) -> None:
    text = print_resources([resource("a\x1b[31m\tb\n", "get")], output, headers=False)
    assert text.startswith("a\\x1b[31m\\x09b\\x0a")


def test_nothing_is_printed_as_an_empty_list() -> None:
    assert {output: print_resources([], output, headers=True) for output in OUTPUTS} == {
        "": "NAME   SHORTNAMES   APIVERSION   NAMESPACED   KIND\n",
        "wide": "NAME   SHORTNAMES   APIVERSION   NAMESPACED   KIND   VERBS   CATEGORIES\n",
        "name": "",
        "json": '{\n    "kind": "APIResourceList",\n    "apiVersion": "v1",\n'
        '    "groupVersion": "",\n    "resources": []\n}\n',
        "yaml": 'apiVersion: v1\ngroupVersion: ""\nkind: APIResourceList\nresources: []\n',
    }


def test_empty_table() -> None:
    assert table([]) == ""


def test_preferred_version_wins_over_an_earlier_one_that_has_the_resource() -> None:
    v1, v2 = GroupVersion("g", "v1"), GroupVersion("g", "v2")
    old, new, only_old = (resource(name, "get", kind=kind) for name, kind in
                          (("a", "Old"), ("a", "New"), ("b", "Old")))  # fmt: skip
    discovery = Discovery((Group("g", ("v1", "v2"), "v2"),), {v1: (old, only_old), v2: (new,)}, {})
    assert preferred_resources(discovery) == ((v1, (only_old,)), (v2, (new,)))


def test_first_version_that_has_a_resource_wins_where_the_preferred_lacks_it() -> None:
    gvs = [GroupVersion("g", version) for version in ("v3", "v2", "v1")]
    found = resource("a", "get")
    discovery = Discovery(
        (Group("g", ("v3", "v2", "v1"), "v3"),), {gvs[1]: (found,), gvs[2]: (found,)}, {}
    )
    assert preferred_resources(discovery) == ((gvs[0], ()), (gvs[1], (found,)), (gvs[2], ()))


def test_subresources_are_not_listed() -> None:
    discovery = Discovery((Group("", ("v1",), "v1"),), {CORE_V1: (resource("a/b", "get"),)}, {})
    assert preferred_resources(discovery) == ((CORE_V1, ()),)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"": []}, '"": []\n'),
        ({"a": "\U0001f600 \u00e9"}, 'a: "\\U0001F600 \u00e9"\n'),
        ({"b": ["1", "y", "x: y"], "a": None}, 'a: null\nb:\n- "1"\n- "y"\n- \'x: y\'\n'),
    ],
)
def test_yaml_is_that_of_go(value: object, text: str) -> None:
    assert yaml_text(value) == text
