"""Resources are selected and printed as by kubectl; `test_against_kubectl` has its tables."""

import json
from datetime import UTC, datetime

import pytest
import yaml
from apidiscovery_cli.printing import OUTPUTS, print_resources, table, yaml_text
from apidiscovery_client._kubectl import (
    Selection,
    failures,
    failures_of_groups,
    listed_versions,
    preferred_resources,
    select,
)
from apidiscovery_client.model import (
    Group,
    GroupVersion,
    GroupVersionKind,
    Resource,
    Snapshot,
    Stale,
    Subresource,
    Unknown,
    Version,
)

CORE_V1 = GroupVersion("", "v1")
SOME_V1 = GroupVersion("somegroup", "v1")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def resource(
    name: str,
    *verbs: str,
    gv: GroupVersion = CORE_V1,
    namespaced: bool = True,
    **texts: str,
) -> Resource:
    return Resource(
        gv=gv,
        name=name,
        singular_name=texts.get("singular_name", ""),
        scope="Namespaced" if namespaced else "Cluster",
        response_kind=GroupVersionKind("", "", texts.get("kind", name.capitalize())),
        verbs=verbs,
        short_names=tuple(texts.get("short_names", "").split()),
        categories=tuple(texts.get("categories", "").split()),
    )


def snapshot(*groups: Group) -> Snapshot:
    return Snapshot(groups=groups, server="", checked_at=NOW)


# `TestAPIResourcesRun` of kubernetes/kubectl pkg/cmd/apiresources/apiresources_test.go
KUBECTLS = snapshot(
    Group("", (Version(CORE_V1, (
        resource("foos", "get", "list", namespaced=False, kind="Foo", short_names="f fo",
                 categories="some-category"),
        resource("bars", "get", "list", "create", kind="Bar"),
    )),)),
    Group("somegroup", (Version(SOME_V1, (
        resource("bazzes", "get", "list", "create", "delete", gv=SOME_V1, kind="Baz",
                 short_names="b", categories="some-category another-category"),
        resource("NoVerbs", gv=SOME_V1),
    )),)),
)  # fmt: skip


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
    assert [chosen.name for chosen in select(KUBECTLS, selection)] == kept


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
    old, only_old = (resource(name, "get", gv=v1, kind="Old") for name in "ab")
    new = resource("a", "get", gv=v2, kind="New")
    versions = Version(v1, (old, only_old)), Version(v2, (new,))
    group = Group("g", versions, stated_preference="v2")
    assert preferred_resources(snapshot(group)) == ((v1, (only_old,)), (v2, (new,)))


def test_first_version_that_has_a_resource_wins_where_the_preferred_lacks_it() -> None:
    v3, v2, v1 = (GroupVersion("g", version) for version in ("v3", "v2", "v1"))
    newer, older = (resource("a", "get", gv=gv) for gv in (v2, v1))
    group = Group("g", (Version(v3), Version(v2, (newer,)), Version(v1, (older,))))
    assert preferred_resources(snapshot(group)) == ((v3, ()), (v2, (newer,)), (v1, ()))


@pytest.mark.parametrize("kind", [None, GroupVersionKind("", "", "")])
def test_resources_without_a_kind_and_subresources_are_not_listed(
    kind: GroupVersionKind | None,
) -> None:
    status = Subresource("status", GroupVersionKind("", "", "Kind"), ("get",))
    nameless = Resource(CORE_V1, "a", "", "Namespaced", kind, ("get",), subresources=(status,))
    listed = snapshot(Group("", (Version(CORE_V1, (nameless, resource("a/b", "get"))),)))
    assert preferred_resources(listed) == ((CORE_V1, ()),)


@pytest.mark.parametrize("stated", ["Stale", "Current", ""])
def test_retained_resources_are_not_listed_but_reported(stated: str) -> None:
    remembered = (resource("as", "get"),)
    stale = Stale(NOW, "it does not answer", retained=True)
    listed = snapshot(Group("", (Version(CORE_V1, remembered, stale, stated),)))
    assert select(listed, Selection()) == []
    assert failures(listed) == {"v1": "it does not answer"}


def test_a_document_of_one_group_version_does_not_matter_for_the_list_of_versions() -> None:
    unread, stale = Version(CORE_V1, (), Unknown(NOW, "503")), Stale(NOW, "stale")
    listed = snapshot(
        Group("", (unread,)), Group("somegroup", (Version(SOME_V1, (), stale, "Stale"),))
    )
    assert [listed_versions(group) for group in listed.groups] == [(unread,), ()]
    assert failures_of_groups(listed) == {"somegroup/v1": "stale"}
    assert failures(listed) == {"v1": "503", "somegroup/v1": "stale"}


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
