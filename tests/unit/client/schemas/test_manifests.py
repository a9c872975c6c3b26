"""Manifests: objects of documents and lists, their lines, and what cannot be read."""

import json

import pytest
from apidiscovery_client.manifests import Manifest, UnreadableManifest, read_manifests

HELM = b"""---
# Source: chart/templates/config.yaml

apiVersion: v1
kind: ConfigMap
metadata:
  name: one
  namespace: shop
data: {a: b}
---
# nothing but a comment
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Secret
  metadata: {name: two}
- apiVersion: v1
  kind: ConfigMapList
  items:
  - kind: ConfigMap
    metadata: {generateName: three-}
"""


def read(text: bytes | str) -> list[Manifest]:
    content = text if isinstance(text, bytes) else text.encode()
    return list(read_manifests(content, "a.yaml"))


def test_objects_of_documents_and_of_lists_come_one_by_one() -> None:
    found = read(HELM)
    assert [one.kind for one in found] == ["ConfigMap", "Secret", "ConfigMap"]
    assert [one.name for one in found] == ["one", "two", "three-"]
    assert found[0].namespace == "shop"
    assert [one.source for one in found] == ["chart/templates/config.yaml", "", ""]


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_what_json_does_not_have_is_text_as_in_yaml(number: str) -> None:
    (found,) = read(f'{{"apiVersion": "v1", "kind": "ConfigMap", "data": {{"a": {number}}}}}')
    assert found.fields["data"] == {"a": number}


def test_lines_are_those_of_the_file() -> None:
    first, second, third = read(HELM)
    assert [first.line, second.line, third.line] == [4, 16, 22]
    assert first.lines([("metadata", "namespace"), ("data", "a"), ("data", "gone")]) == [8, 9, 9]
    assert first.lines([("nowhere",)]) == [4], "of a field that is not there, that of the object"
    assert second.lines([("metadata", "name")]) == [18]


def test_json_has_lines_as_well() -> None:
    text = json.dumps({"kind": "A", "spec": {"x": [1, {"y": 2}]}}, indent=1)
    (found,) = read(text)
    lines = text.splitlines()
    assert found.lines([("spec", "x", 1, "y")]) == [
        next(at for at, line in enumerate(lines, 1) if '"y"' in line)
    ]


def test_flow_style_is_no_json() -> None:
    (found,) = read("{kind: A, metadata: {name: x}}")
    assert (found.kind, found.name, found.line) == ("A", "x", 1)


@pytest.mark.parametrize("text", ["", "---\n---\n", "# only\n", "\n\n"])
def test_empty_files_have_no_objects(text: str) -> None:
    assert read(text) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("a: 1\n---\nb: [", "a.yaml:3: no YAML", id="broken YAML"),
        pytest.param("- a\n", "a.yaml:1: it is an array, not an object", id="array"),
        pytest.param("---\njust text\n", "a.yaml:1: it is a string, not an object", id="text"),
        pytest.param('{"a": 1, "a": 2}', "a.yaml:1: the key 'a' is there twice", id="JSON twice"),
        pytest.param("a: 1\na: 2\n", "a.yaml:2: the key 'a' is there twice", id="YAML twice"),
        pytest.param("kind: List\nitems: [1]", "a.yaml:1: it is a number", id="no item"),
        pytest.param(b"a: 1\nb: \xff\n", "a.yaml:2: it is not UTF-8", id="not UTF-8"),
        pytest.param("[" * 500, "a.yaml:1: nested deeper", id="deep"),
        pytest.param("{{ .Values.x }}: 1", "a.yaml:1: no YAML", id="a template"),
    ],
)
def test_what_is_no_object_is_told_with_its_place(text: bytes | str, problem: str) -> None:
    with pytest.raises(UnreadableManifest, match=problem.replace("[", r"\[")):
        read(text)
