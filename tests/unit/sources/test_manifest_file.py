"""Manifest files: their declarations, and the places of errors."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from apidiscovery_formats.yaml_text import Budget
from apidiscovery_service.core.model import Offer
from apidiscovery_service.errors import InvalidDocument
from apidiscovery_service.sources.api_service import ApiService
from apidiscovery_service.sources.crds.model import CustomResourceDefinition
from apidiscovery_service.sources.manifests.file import (
    MAX_ERRORS,
    MAX_FILE_BYTES,
    TextLimits,
    read_documents,
    read_manifest,
)
from crd_manifests import API_SERVICE, CRONTABS, edited, simple

HEAD = "apiVersion: apidiscovery.k8s.io/v2\nkind: APIGroupDiscoveryList\n"
A = HEAD + "items:\n- metadata: {name: a.example}\n  versions:\n  - version: v1\n"
B = A.replace("a.example", "b.example")
WRONG_SCOPE = (
    HEAD
    + """items:
- metadata: {name: b.example}
  versions:
  - version: v1
    resources:
    - resource: widgets
      scope: Everywhere
"""
)


def read(folder: Path, content: str | bytes, name: str = "m.yaml") -> tuple[Offer, ...]:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_manifest(path).offers


def names(offers: tuple[Offer, ...]) -> list[str]:
    return [f"{offer.group}/{offer.version.version}" for offer in offers]


def as_json(text: str = "a.example") -> str:
    item = {"metadata": {"name": text}, "versions": [{"version": "v1"}]}
    head = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2beta1"}
    return json.dumps({**head, "items": [item]}, indent=1)


def listed(*documents: str) -> str:
    items = ",\n".join(documents)
    return f'{{"kind": "List", "apiVersion": "v1", "metadata": {{}}, "items": [\n{items}]}}'


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        pytest.param("", [], id="empty"),
        pytest.param("\n  \n# only\n  # comments\n", [], id="comments"),
        pytest.param("---\n---\n# c\n---\n", [], id="empty-documents"),
        pytest.param(A, ["a.example/v1"], id="one"),
        pytest.param(f"---\n{A}---\n", ["a.example/v1"], id="between-separators"),
        pytest.param(f"{A}---\n{B}", ["a.example/v1", "b.example/v1"], id="two"),
        pytest.param(f"{B}--- # next\n{A}", ["b.example/v1", "a.example/v1"], id="comment-at-line"),
        pytest.param(f"{A}...\n---\n{B}", ["a.example/v1", "b.example/v1"], id="end-marker"),
        pytest.param("\ufeff" + A, ["a.example/v1"], id="BOM"),
        pytest.param(
            f"{A}---\n{B}".replace("\n", "\r\n"), ["a.example/v1", "b.example/v1"], id="CRLF"
        ),
        pytest.param(as_json(), ["a.example/v1"], id="JSON"),
        pytest.param(f"\n\n{as_json()}\n---\n{B}", ["a.example/v1", "b.example/v1"], id="both"),
        pytest.param(f"# c\n---\n{as_json()}", ["a.example/v1"], id="JSON-after-a-comment"),
        pytest.param(listed(), [], id="empty-List"),
        pytest.param(
            listed(as_json(), as_json("b.example")), ["a.example/v1", "b.example/v1"], id="List"
        ),
        pytest.param("{kind: List, apiVersion: v1}", [], id="flow-style-YAML"),
    ],
)
def test_a_file_offers_its_groups_in_its_order(
    content: str, wanted: list[str], tmp_path: Path
) -> None:
    assert names(read(tmp_path, content)) == wanted


def test_ranks_continue_from_document_to_document(tmp_path: Path) -> None:
    content = f"{A}---\n{listed(as_json('z.example'), as_json('c.example'))}\n---\n{B}"
    offers = read(tmp_path, content)
    assert [(o.group, o.group_rank) for o in offers] == [
        ("a.example", 0),
        ("z.example", 1),
        ("c.example", 2),
        ("b.example", 3),
    ]


def test_json_may_escape_surrogate_pairs(tmp_path: Path) -> None:
    resource = {"resource": "r", "scope": "Cluster", "shortNames": ["\U0001f600"]}
    version = {"version": "v1", "resources": [resource]}
    head = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2"}
    content = json.dumps({**head, "items": [{"versions": [version]}]})
    assert r"\ud83d\ude00" in content
    (offer,) = read(tmp_path, content)
    assert offer.version.resources[0].short_names == ("\U0001f600",)


# --------------------------------------------------------------------------------------------------
# CustomResourceDefinitions and APIServices.


DEFINITION, SERVICE = json.dumps(CRONTABS), json.dumps(API_SERVICE)


def of_type(kind: str, group: str, *items: object) -> str:
    return json.dumps({"kind": f"{kind}List", "apiVersion": f"{group}/v1", "items": items})


def untyped(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in {"kind", "apiVersion"}}


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(f"{DEFINITION}\n---\n{SERVICE}\n---\n{A}", id="each"),
        pytest.param(f"{listed(DEFINITION, SERVICE)}\n---\n{A}", id="List"),
        pytest.param(
            of_type("CustomResourceDefinition", "apiextensions.k8s.io", untyped(CRONTABS))
            + f"\n---\n{A}---\n"
            + of_type("APIService", "apiregistration.k8s.io", untyped(API_SERVICE)),
            id="typed-lists",
        ),
        pytest.param(
            f"{A}---\n{yaml.safe_dump(API_SERVICE)}---\n{yaml.safe_dump(CRONTABS)}", id="YAML"
        ),
    ],
)  # fmt: skip
def test_a_file_may_hold_all_kinds_in_all_forms(content: str, tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(content, encoding="utf-8")
    declared = read_manifest(path)
    assert names(declared.offers) == ["a.example/v1"]
    assert [crd.name for crd in declared.crds] == ["crontabs.stable.example.com"]
    assert [service.name for service in declared.api_services] == ["v1.remote.example.com"]


def test_documents_have_kind_and_name() -> None:
    content = f"---\n{A}---\n{listed(json.dumps(CRONTABS), json.dumps(API_SERVICE))}"
    documents = read_documents(content, "sent")
    assert [(d.number, d.kind, d.name) for d in documents] == [
        (1, "groups", ""),
        (2, "crd", "crontabs.stable.example.com"),
        (2, "apiservice", "v1.remote.example.com"),
    ]
    assert [d.value for d in documents[1:]] == [CRONTABS, API_SERVICE]


def test_a_discovery_list_may_have_a_name() -> None:
    (document,) = read_documents(A + "metadata: {name: east}\n", "sent")
    assert document.name == "east"
    with pytest.raises(InvalidDocument) as caught:
        read_documents(A + "metadata: {name: 1}\n", "sent")
    assert str(caught.value) == "sent:7, document 1, metadata.name: want a string, got int 1"


STATUSES: list[Any] = [
    "text",
    {"conditions": "none"},
    {"conditions": [{"type": 1}], "nonsense": {}},
]


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("document", [CRONTABS, API_SERVICE], ids=["crd", "apiservice"])
def test_the_status_of_an_applied_object_is_ignored(
    document: dict[str, Any], status: object
) -> None:
    content = json.dumps({**document, "status": status})
    (read,) = read_documents(content, "sent", applied=True)
    assert read.value == {**document, "status": status}
    with pytest.raises(InvalidDocument) as caught:
        read_documents(content, "sent")
    assert caught.value.field.startswith("status")


def test_metadata_that_servers_set_is_ignored_in_an_applied_object() -> None:
    metadata = {**CRONTABS["metadata"], "finalizers": ["a/b"], "managedFields": "x"}
    metadata |= {"creationTimestamp": 1, "deletionTimestamp": "2026-02-02T03:04:05Z"}
    content = json.dumps({**CRONTABS, "metadata": metadata})
    (read,) = read_documents(content, "sent", applied=True)
    assert isinstance(read.content, CustomResourceDefinition)
    assert (read.content.created, read.content.terminating) == ("", False)
    assert read.content.finalizers == ("a/b",)
    with pytest.raises(InvalidDocument) as caught:
        read_documents(content, "sent")
    assert [caught.value.field] == ["metadata.creationTimestamp"]


def test_items_of_a_typed_list_get_its_kind() -> None:
    content = of_type("APIService", "apiregistration.k8s.io", untyped(API_SERVICE))
    (document,) = read_documents(content, "sent")
    assert isinstance(document.content, ApiService)
    assert document.value == API_SERVICE


def test_a_name_twice_in_a_file_is_an_error() -> None:
    content = f"{json.dumps(CRONTABS)}\n---\n{json.dumps(CRONTABS)}"
    with pytest.raises(InvalidDocument) as caught:
        read_documents(content, "sent")
    assert str(caught.value) == (
        "sent:3, document 2, metadata.name: crontabs.stable.example.com is already in document 1"
    )


def test_each_invalid_field_has_its_line() -> None:
    document = edited(edited(CRONTABS, "spec.scope", "x"), "spec.versions[1].storage", value=True)
    content = "# c\n---\n" + yaml.safe_dump(document, sort_keys=False)
    with pytest.raises(InvalidDocument) as caught:
        read_documents(content, "sent")
    found = [caught.value, *caught.value.others]
    lines = content.splitlines()
    assert [(error.field, lines[error.line - 1].strip()) for error in found] == [
        ("spec.scope", "scope: x"),
        ("spec.versions", "versions:"),
    ]
    assert [line.partition(" ")[0] for line in str(caught.value).splitlines()] == [
        f"sent:{error.line}," for error in found
    ]


def test_each_invalid_document_is_reported() -> None:
    wrong = json.dumps(edited(CRONTABS, "spec.scope", "x"))
    content = f"{WRONG_SCOPE}---\n{A}---\na: [\n---\n{listed(SERVICE, wrong, wrong)}\n---\n{B}"
    with pytest.raises(InvalidDocument) as caught:
        read_documents(content, "sent")
    found = [caught.value, *caught.value.others]
    assert [(error.document, error.line, error.field) for error in found] == [
        (1, 9, "items[0].versions[0].resources[0].scope"),
        (3, 18, ""),
        (4, 22, "items[1].spec.scope"),
        (4, 23, "items[2].spec.scope"),
    ]
    assert len(str(caught.value).splitlines()) == 4
    assert str(caught.value.args[0]) == "want Cluster or Namespaced, got 'Everywhere'"


def test_the_last_error_says_that_there_are_more() -> None:
    for count in (MAX_ERRORS, MAX_ERRORS + 50):
        with pytest.raises(InvalidDocument) as caught:
            read_documents("kind: Pod\n---\n" * count, "sent")
        *others, last = caught.value.others
        assert [error.document for error in others] == [*range(2, len(others) + 2)]
        more = f"sent: has more errors than the {MAX_ERRORS} that are shown"
        assert (str(last) == more) is (count > MAX_ERRORS)


def test_the_cost_of_a_file_grows_linearly() -> None:
    """Some tenths of a second; much more if lines were counted anew for each document."""
    documents = [json.dumps(simple(f"things{n}x")) + "\n" * 2000 for n in range(1000)]
    content = "\n---\n".join([*documents, "kind: Pod"])
    began = time.process_time()
    with pytest.raises(InvalidDocument) as caught:
        read_documents(content, "sent")
    assert time.process_time() - began < 0.75
    assert (caught.value.line, caught.value.document) == (1000 * 2002 + 1, 1001)


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({**CRONTABS, "apiVersion": "apiextensions.k8s.io/v1beta1"}, "apiVersion"),
        ({**API_SERVICE, "kind": "APIServices"}, "kind"),
        (
            json.loads(of_type("APIService", "apiregistration.k8s.io", CRONTABS)),
            "items[0].kind",
        ),
    ],
)  # fmt: skip
def test_another_version_or_kind_is_not_understood(document: object, field: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        read_documents(json.dumps(document), "sent")
    assert caught.value.field == field
    assert "CustomResourceDefinition of apiextensions.k8s.io/v1" in str(caught.value)


# --------------------------------------------------------------------------------------------------
# Errors: document, line, field, text.

ERRORS = [
    pytest.param(
        WRONG_SCOPE, 1, 9, "items[0].versions[0].resources[0].scope", "want Cluster or", id="field"
    ),
    pytest.param(
        f"{A}---\n# c\n{WRONG_SCOPE}",
        2,
        17,
        "items[0].versions[0].resources[0].scope",
        "want Cluster or Namespaced, got 'Everywhere'",
        id="field-of-the-second-document",
    ),
    pytest.param(
        f"---\n---\n{WRONG_SCOPE}",
        2,
        11,
        "items[0].versions[0].resources[0].scope",
        "want",
        id="empty-documents-count",
    ),
    pytest.param(
        "# c\n---\n" + WRONG_SCOPE,
        1,
        11,
        "items[0].versions[0].resources[0].scope",
        "want",
        id="comments-before-the-first-separator-do-not",
    ),
    pytest.param(
        WRONG_SCOPE.replace("\n", "\r\n"),
        1,
        9,
        "items[0].versions[0].resources[0].scope",
        "want",
        id="CRLF",
    ),
    pytest.param(
        as_json("A").replace("\n", "\n\n"), 1, 13, "items[0].metadata.name", "want a DNS", id="JSON"
    ),
    pytest.param(
        listed(as_json(), as_json("A")), 1, 24, "items[1].items[0].metadata.name", "want", id="List"
    ),
    pytest.param(
        HEAD + "\n\nitem: []\nitems: []\n", 1, 5, "item", "unknown field", id="unknown-field"
    ),
    pytest.param(HEAD, 1, 1, "items", "required", id="missing-field"),
    pytest.param(A + "  - {}\n", 1, 7, "items[0].versions[1].version", "required", id="closest"),
    pytest.param("kind: Pod\n", 1, 1, "kind", "want APIGroupDiscoveryList", id="other-kind"),
    pytest.param("# c\na: 1\n", 1, 1, "kind", "want APIGroupDiscoveryList", id="no-kind"),
    pytest.param(
        A.replace("/v2", "/v3"), 1, 1, "apiVersion", "want APIGroupDiscoveryList of", id="version"
    ),
    pytest.param("kind: List\n", 1, 1, "apiVersion", "want", id="List-without-version"),
    pytest.param("kind: 1\n", 1, 1, "kind", "want a string, got int 1", id="kind-int"),
    pytest.param("- a\n", 1, 1, "", "want an object, got a list", id="list"),
    pytest.param("[]", 1, 1, "", "want an object, got a list", id="JSON-list"),
    pytest.param("text\n", 1, 1, "", "want an object, got a string", id="text"),
    pytest.param(f"{A}---\na: [\n", 2, 8, "", "no YAML: ", id="not-YAML"),
    pytest.param("a: 1\n b: 2\n", 1, 2, "", "no YAML: mapping values", id="bad-indent"),
    pytest.param("a: \x01\n", 1, 1, "", "no YAML: ", id="control-character"),
    pytest.param("a: !!python/object:x {}\n", 1, 1, "", "no YAML: ", id="tag"),
    pytest.param("a: 1\nb: -.inf\n", 1, 2, "", "no YAML: -.inf is", id="infinite"),
    pytest.param("kind: !!bool maybe\n", 1, 1, "", "no YAML: ", id="no-boolean"),
    pytest.param("kind: !!int ''\n", 1, 1, "", "no YAML: ", id="no-integer"),
    pytest.param("kind: !!timestamp x\n", 1, 1, "", "no YAML: ", id="no-timestamp"),
    pytest.param('{\n"a": 1,\n"b" 2}', 1, 3, "", "no JSON: ", id="not-JSON"),
    pytest.param('{"a": "\\ud800"}', 1, 1, "", "no JSON: ", id="JSON-lone-surrogate"),
    pytest.param('a: "\\ud800"\n', 1, 1, "", "no YAML: ", id="YAML-lone-surrogate"),
    pytest.param(
        f"{A}---\n{A}", 2, 13, "items[0].versions[0].version", "a.example/v1 is", id="twice"
    ),
    pytest.param(
        listed(as_json(), as_json()),
        1,
        *(28, "items[1].items[0].versions[0].version", "a.example/v1 is already in document 1"),
        id="twice-in-a-List",
    ),
]


@pytest.mark.parametrize(("content", "document", "line", "field", "message"), ERRORS)
def test_an_error_has_document_line_and_field(  # noqa: PLR0913 - one argument a column
    *, content: str, document: int, line: int, field: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidDocument) as caught:
        read(tmp_path, content)
    error = caught.value
    assert (error.document, error.line, error.field) == (document, line, field)
    assert str(error.args[0]).startswith(message)
    place = f"{tmp_path / 'm.yaml'}:{line}, document {document}"
    assert str(error) == f"{place}{', ' * bool(field)}{field}: {error.args[0]}"


def test_text_that_is_not_utf_8_is_an_error_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidDocument) as caught:
        read(tmp_path, A.encode() + b"# caf\xe9\n")
    assert (caught.value.document, caught.value.line) == (0, 7)
    assert str(caught.value.args[0]).startswith("not UTF-8: ")


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidDocument) as caught:
        read_manifest(tmp_path / "none.yaml")
    assert (
        str(caught.value) == f"{tmp_path / 'none.yaml'}: cannot be read: No such file or directory"
    )


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    with path.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(InvalidDocument, match="larger than 64 MiB"):
        read_manifest(path)


# --------------------------------------------------------------------------------------------------
# Hostile files: an error like any other, never the end of the process.

READ_IN_A_PROCESS = """
import sys
from pathlib import Path
from apidiscovery_service.errors import InvalidDocument
from apidiscovery_service.sources.manifests.file import read_manifest
for path in sys.argv[1:]:
    try:
        read_manifest(Path(path))
    except InvalidDocument:
        print(Path(path).name)
"""

LIST_OF = '{"kind": "List", "apiVersion": "v1", "items": ['

HOSTILE = {
    "JSON-nested-deeply": "[" * 100_000,
    "JSON-objects-nested-deeply": '{"a":' * 100_000,
    "Lists-nested-deeply": LIST_OF * 500 + "]}" * 500,
    "YAML-nested": "a: " + "[" * 2_000 + "]" * 2_000,
    "YAML-nested-deeply": "a: " + "[" * 100_000 + "]" * 100_000,
    "YAML-mappings-nested-deeply": "a: " + "{b: " * 100_000,
    "YAML-block-nested-deeply": "- " * 100_000,
    "YAML-Lists-nested": "a: " + LIST_OF * 300 + "]}" * 300,
    "List-within-itself": "&a\nkind: List\napiVersion: v1\nitems: [*a]\n",
    "integer-of-many-digits": "kind: 0x" + "f" * 5000 + "\n",
}


def test_a_hostile_file_is_an_error_and_not_the_end_of_the_process(tmp_path: Path) -> None:
    for name, content in HOSTILE.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    command = [sys.executable, "-c", READ_IN_A_PROCESS, *(str(tmp_path / name) for name in HOSTILE)]
    ended = subprocess.run(command, capture_output=True, timeout=60, check=False)  # noqa: S603
    assert (ended.stdout.decode().split(), ended.stderr) == ([*HOSTILE], b"")
    assert ended.returncode == 0


def limits(values: int, located: int = 1_000) -> TextLimits:
    return TextLimits(Budget(values), Budget(located))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(json.dumps({"kind": "x", "a": [1] * 100}), id="JSON"),
        pytest.param("kind: x\na: [" + "1," * 99 + "1]\n", id="YAML"),
        pytest.param("kind: x\na: [1, 1]\n---\n" * 20, id="several documents"),
    ],
)
def test_values_of_untrusted_texts_are_counted(text: str) -> None:
    with pytest.raises(InvalidDocument, match="more than 60 values"):
        read_documents(text, "sent", limits=limits(60))
    with pytest.raises(InvalidDocument) as caught:
        read_documents(text, "sent", limits=limits(300))
    assert "values" not in str(caught.value)


def test_content_of_strings_is_not_counted() -> None:
    (document,) = read_documents(A, "sent", limits=limits(60))
    name = 'a,\\":[{' * 40
    value = {**cast("dict[str, object]", document.value), "metadata": {"name": name}}
    (again,) = read_documents(json.dumps(value), "sent", limits=limits(60))
    assert again.name == name


def test_large_texts_that_begin_like_json_are_not_read_as_yaml() -> None:
    flow = "{kind: x, a: [" + "1," * 200_000 + "1]}"
    with pytest.raises(InvalidDocument, match="no JSON"):
        read_documents(flow, "sent", limits=limits(1_000_000))


def test_lines_are_not_looked_for_in_very_large_documents() -> None:
    text = "a: 1\nb: 2\nkind: [1]\n"
    for located, line in ((1_000, 3), (4, 1)):
        with pytest.raises(InvalidDocument) as caught:
            read_documents(text, "sent", limits=limits(1_000, located))
        assert caught.value.line == line
