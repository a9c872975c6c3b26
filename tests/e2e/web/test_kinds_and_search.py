"""Pages of kinds and of the search over plain HTTP: what is there without any script."""

import html
import re
from collections.abc import Mapping

import pytest
import yaml
from raw_http import RawResponse, get
from server import Server, eventually

DEPLOYMENT = "/ui/kinds/apps/v1/Deployment"
BUILT_S = 60.0
_FRAGMENT = ("HX-Request", "true")


def page(server: Server, path: str, *lines: tuple[str, str]) -> RawResponse:
    return get(server.http_port, path, "text/html", *lines)


def text(server: Server, path: str, *lines: tuple[str, str]) -> str:
    answer = page(server, path, *lines)
    assert answer.status == 200, answer.body
    return answer.body.decode()


def fields(shown: str) -> list[str]:
    """Return the paths of the fields that are shown."""
    return [html.unescape(found) for found in re.findall(r'<li id="([^"]+)" class="field"', shown)]


def test_a_kind_tells_its_names_and_opens_a_path(served: Mapping[str, Server]) -> None:
    shown = text(served["catalogue"], f"{DEPLOYMENT}?field=spec.strategy.rollingUpdate")
    assert "spec.strategy.rollingUpdate.maxSurge" in fields(shown)
    for wanted in ("<code>deployments</code>", "<code>deploy</code>", "Namespaced", "scale"):
        assert wanted in shown
    command = "kubectl explain deployments.spec.strategy.rollingUpdate --api-version=apps/v1"
    assert command in shown
    assert 'href="/schemas/apps/deployment_v1.json"' in shown
    assert page(served["catalogue"], "/schemas/apps/deployment_v1.json").status == 200


def test_a_fragment_is_one_field(served: Mapping[str, Server]) -> None:
    server, path = served["catalogue"], f"{DEPLOYMENT}?field=spec.strategy"
    shown = text(server, path, _FRAGMENT)
    assert fields(shown) == ["spec.strategy", "spec.strategy.rollingUpdate", "spec.strategy.type"]
    assert "<html" not in shown
    assert fields(text(server, f"{path}&open=no", _FRAGMENT)) == ["spec.strategy"]
    assert page(server, f"{DEPLOYMENT}?field=spec.nothing", _FRAGMENT).status == 404


def test_a_missing_field_is_told_and_the_rest_of_the_path_opened(
    served: Mapping[str, Server],
) -> None:
    shown = text(served["catalogue"], f"{DEPLOYMENT}?field=spec.strategy.colour")
    assert "There is no field <code>spec.strategy.colour</code>" in shown
    assert "spec.strategy.type" in fields(shown)


def test_an_example_is_a_manifest(served: Mapping[str, Server]) -> None:
    shown = text(served["definitions"], "/ui/kinds/cert-manager.io/v1/Certificate")
    (example,) = re.findall(r'<pre id="kind-example"[^>]*>(.*?)</pre>', shown, re.DOTALL)
    found = yaml.safe_load(html.unescape(example))
    assert (found["apiVersion"], found["kind"]) == ("cert-manager.io/v1", "Certificate")
    assert {"issuerRef", "secretName"} <= set(found["spec"])


@pytest.mark.parametrize(
    "path",
    [
        "/ui/kinds/apps/v1/Nothing",
        "/ui/kinds/apps/v9/Deployment",
        "/ui/kinds/nothing/v1/Deployment",
        f"{DEPLOYMENT}?cluster=nowhere",
    ],
)
def test_what_is_not_served_is_not_found(served: Mapping[str, Server], path: str) -> None:
    assert page(served["catalogue"], path).status == 404


def test_clusters_with_and_without_a_kind_are_told(served: Mapping[str, Server]) -> None:
    shown = text(served["fleet"], DEPLOYMENT)
    assert f'<a href="{DEPLOYMENT}?cluster=east">east</a>' in shown
    assert re.search(r"<dt>Not known in</dt>\s*<dd>gone</dd>", shown)
    other = text(served["fleet"], f"{DEPLOYMENT}?cluster=east")
    assert "as cluster <strong>east</strong> serves it" in other


def test_a_field_is_found_by_its_name_and_by_words(served: Mapping[str, Server]) -> None:
    server = served["definitions"]

    def found(query: str) -> str:
        return text(server, f"/ui/search?q={query}", _FRAGMENT)

    eventually(
        lambda: "still being read" not in found("renewBefore"), BUILT_S, "the index is built"
    )
    link = "/ui/kinds/cert-manager.io/v1/Certificate?field=spec.renewBefore#spec.renewBefore"
    for query in ("renewBefore", "renew+before", "certificate+renewBefore", "spec.renewBefore"):
        assert link in found(query), query
    assert "spec.renewBefore" in found("issued+certificate+expiry+renewed")
    assert found("cert").index(">Certificate<") < found("cert").index(">CertificateRequest<")


def test_a_search_says_whose_fields_are_not_known(served: Mapping[str, Server]) -> None:
    def found() -> str:
        return text(served["fleet"], "/ui/search?q=maxSurge", _FRAGMENT)

    said = "The fields of 2 clusters are not known."  # `east` publishes no OpenAPI
    eventually(lambda: said in found(), BUILT_S, "what is known is read")


@pytest.mark.parametrize(
    "query",
    ["%00", "%22", "*", "AND", "%22+OR+(", "x" * 5000, "%F0%9F%98%80", "%ff", "-", "name%3Ax", ""],
)
def test_any_text_has_an_answer(served: Mapping[str, Server], query: str) -> None:
    assert page(served["definitions"], f"/ui/search?q={query}").status == 200
