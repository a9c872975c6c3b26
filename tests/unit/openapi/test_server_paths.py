"""The path of a group-version itself in a generated document."""

from typing import Any

import orjson
from apidiscovery_releases import newest
from apidiscovery_service.core.model import Version
from apidiscovery_service.openapi.generated import generated_document
from openapi_checks import read_sound, without_empty_defaults


def test_the_list_of_resources_is_described_as_by_kubernetes() -> None:
    ours = read_sound(generated_document("apps", Version("v1"), ""))
    theirs: Any = without_empty_defaults(orjson.loads(newest().openapi_v3("apis/apps/v1")))
    assert ours["paths"] == {"/apis/apps/v1/": theirs["paths"]["/apis/apps/v1/"]}
    for name in ("APIResourceList", "APIResource"):
        schema = f"io.k8s.apimachinery.pkg.apis.meta.v1.{name}"
        assert (
            without_empty_defaults(ours["components"]["schemas"][schema])
            == (theirs["components"]["schemas"][schema])
        )
    for part in ("openapi", "info"):
        assert ours[part] == theirs[part]
