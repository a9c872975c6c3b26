"""Documents of definitions: the reference's bytes, whatever the order; conflicts and limits."""

import hashlib
import json
from copy import deepcopy
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from apidiscovery_service.openapi.crd import document as module
from apidiscovery_service.openapi.crd.document import Definition, crd_document
from apidiscovery_service.openapi.errors import InvalidOpenAPI
from apidiscovery_service.openapi.operations import article, camel, operation_id
from crd_goldens import definition, definitions, document, group_versions, hashes
from crd_manifests import CRONTABS, simple
from json_walks import is_array, is_object, references
from openapi_spec_validator import validate

GROUP, VERSION = "stable.example.com", "v1"
CRONTAB, CRONTAB_LIST = "com.example.stable.v1.CronTab", "com.example.stable.v1.CronTabList"
ITEM = f"/apis/{GROUP}/v1/namespaces/{{namespace}}/crontabs/{{name}}"
META = "io.k8s.apimachinery.pkg.apis.meta.v1."


def checkable(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return an OpenAPI document without what validators take amiss in Kubernetes' own ones.

    ObjectMeta has a default that is not valid: `{}` of an OwnerReference, which has required
    fields. Patterns are RE2's, such as `^(?i)(abort|warn)?$`, not JavaScript's.
    """
    if is_object(value):
        return {
            key: checkable(one)
            for key, one in value.items()
            if key != "default" and not (key == "pattern" and isinstance(one, str))
        }
    return [checkable(one) for one in value] if is_array(value) else value


def crontabs(**fields: object) -> Definition:
    """Return the CronTab definition, its first version's fields replaced."""
    changed = deepcopy(CRONTABS)
    changed["spec"]["versions"][0].update(fields)
    return definition(changed)


def made(*several: Definition, group: str = GROUP, version: str = VERSION) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(crd_document(group, version, several))
    return made


@pytest.mark.parametrize(("group", "version"), group_versions())
def test_real_definitions_make_the_bytes_and_hashes_that_kubernetes_publishes(
    group: str, version: str
) -> None:
    data = crd_document(group, version, definitions(group, version))
    assert data == document(f"apis/{group}/{version}")
    assert hashlib.sha512(data).hexdigest().upper() == hashes()[f"apis/{group}/{version}"]


def test_there_are_real_definitions_of_ten_group_versions() -> None:
    assert len(group_versions()) == 10


def test_the_order_of_definitions_does_not_matter() -> None:
    several = [crontabs(), *(definition(simple(name, GROUP)) for name in ("things", "widgets"))]
    assert len({crd_document(GROUP, VERSION, order) for order in permutations(several)}) == 1


def test_the_document_of_crontabs_is_valid() -> None:
    validate(checkable(made(crontabs())))


class TestComponents:
    def test_scale_is_there_only_when_a_definition_has_it(self) -> None:
        scale = "io.k8s.api.autoscaling.v1.Scale"
        assert scale in made(crontabs())["components"]["schemas"]
        without = made(crontabs(subresources={"status": {}}))
        assert scale not in without["components"]["schemas"]
        assert f"{ITEM}/scale" not in without["paths"]

    @pytest.mark.parametrize("subresources", [{}, None, {"status": None, "scale": None}])
    def test_null_counts_as_absent(self, subresources: object) -> None:
        paths = made(crontabs(subresources=subresources))["paths"]
        assert not [path for path in paths if path.endswith(("/status", "/scale"))]

    def test_every_component_but_the_kinds_is_reached_from_an_operation_or_a_kind(self) -> None:
        data = made(crontabs())
        found = set(references(data))
        names = {f"#/components/schemas/{name}" for name in data["components"]["schemas"]}
        assert names <= found | {f"#/components/schemas/{META}ObjectMeta"}

    def test_object_meta_is_there_even_when_no_kind_shows_its_fields(self) -> None:
        data = made(crontabs(schema=None))
        assert f"{META}ObjectMeta" in data["components"]["schemas"]


def test_selectable_fields_are_named_without_leading_dot_at_kind_and_list() -> None:
    fields = [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}]
    schemas = made(crontabs(selectableFields=fields))["components"]["schemas"]
    expected = [{"fieldPath": "spec.color"}, {"fieldPath": "spec.size"}]
    for name in (CRONTAB, CRONTAB_LIST):
        assert schemas[name]["x-kubernetes-selectable-fields"] == expected
        assert list(schemas[name])[-2:] == [
            "x-kubernetes-group-version-kind",
            "x-kubernetes-selectable-fields",
        ]


class TestConflicts:
    def test_a_kind_that_is_the_list_of_another_is_refused_with_both_names(self) -> None:
        other = simple("lists", GROUP, kind="CronTabList")
        with pytest.raises(InvalidOpenAPI) as caught:
            made(crontabs(), definition(other))
        assert caught.value.path == ("schemas", CRONTAB_LIST)
        assert f"crontabs.{GROUP}" in caught.value.message
        assert f"lists.{GROUP}" in caught.value.message

    def test_a_kind_that_is_its_own_list_is_refused(self) -> None:
        with pytest.raises(InvalidOpenAPI, match="both"):
            made(definition(simple("lists", GROUP, kind="One", listKind="One")))

    def test_a_name_of_kubernetes_own_is_refused(self) -> None:
        group = "meta.apis.pkg.apimachinery.k8s.io"
        other = definition(simple("statuses", group, kind="Status"))
        with pytest.raises(InvalidOpenAPI, match="both Kubernetes and statuses"):
            made(other, group=group)

    def test_the_same_plural_twice_is_refused(self) -> None:
        with pytest.raises(InvalidOpenAPI, match="both"):
            made(crontabs(), definition(simple("crontabs", GROUP, kind="Other")))

    def test_a_group_named_like_kubernetes_own_may_have_other_kinds(self) -> None:
        group = "meta.apis.pkg.apimachinery.k8s.io"
        other = definition(simple("statutes", group, kind="Statute"))
        assert f"{META}Statute" in made(other, group=group)["components"]["schemas"]


def test_accepted_names_count_not_the_wanted_ones() -> None:
    data = made(replace(crontabs(), plural="cts", kind="Ct", list_kind="CtList"))
    assert "com.example.stable.v1.Ct" in data["components"]["schemas"]
    assert f"/apis/{GROUP}/v1/cts" in data["paths"]


@pytest.mark.parametrize(
    "text", [b"", b"{", b"\xff", pytest.param(b"[" * 100_000, id="deeper than the parser goes")]
)
def test_a_definition_that_is_not_json_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidOpenAPI, match="crontabs: is not JSON"):
        made(replace(crontabs(), version=text))


def test_a_document_that_gets_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DOCUMENT_BYTES", 20_000)
    with pytest.raises(InvalidOpenAPI, match=r"crontabs\.stable.*larger than 20000 bytes"):
        made(crontabs())


@pytest.mark.parametrize(
    ("stem", "group", "expected"),
    [
        ("listXForAllNamespaces", "a.example", "listAExampleV1XForAllNamespaces"),
        ("createNamespacedX", "a.example", "createAExampleV1NamespacedX"),
        ("deletecollectionNamespacedX", "a.example", "deleteAExampleV1CollectionNamespacedX"),
        ("patchNamespacedXStatus", "apps.k8s.io", "patchAppsV1NamespacedXStatus"),
        ("readX", "gateway.networking.k8s.io", "readGatewayNetworkingV1X"),
        ("readX", "gateway.networking.x-k8s.io", "readGatewayNetworkingXK8sIoV1X"),
        ("replaceX", "1a.2b", "replaceA2bV1X"),
    ],
)
def test_operation_ids(stem: str, group: str, expected: str) -> None:
    assert operation_id(stem, group, "v1") == expected


def test_an_operation_without_a_verb_has_no_id() -> None:
    with pytest.raises(ValueError, match="empty"):
        operation_id("makeX", "a.example", "v1")


@pytest.mark.parametrize(
    ("text", "capital", "expected"),
    [
        ("stable.example.com", True, "StableExampleCom"),
        ("stable.example.com", False, "stableExampleCom"),
        ("x-k8s_a.io", False, "xK8s_aIo"),
        ("9to5", False, "To5"),
        ("", True, ""),
        ("größe.ß", True, "Größeß"),
    ],
)
def test_camel(text: str, capital: bool, expected: str) -> None:  # noqa: FBT001 - a table
    assert camel(text, capital=capital) == expected


@pytest.mark.parametrize(
    ("noun", "expected"),
    [
        ("CronTab", " a "),
        ("Issuer", " an "),
        ("order", " an "),
        ("Prometheus", " "),
        ("GatewayClass", " a "),
        ("s", " "),
    ],
)
def test_articles(noun: str, expected: str) -> None:
    assert article(noun) == expected
