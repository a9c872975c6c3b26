"""Paths of objects: their methods, their endpoints in metrics, and their verbs."""

import pytest
from apidiscovery_service.kube.objects.kinds import LEASE, STORAGE_VERSION
from apidiscovery_service.serving.http.objects.routes import ObjectRoute, object_route
from object_server import LEASES, NAMESPACED_LEASES, PATH, WATCH_PATH

READ = ("GET",)
COLLECTION = ("GET", "POST", "DELETE")
ITEM = ("GET", "PUT", "PATCH", "DELETE")
STATUS = ("GET", "PUT", "PATCH")
ONE = f"{PATH}/{{name}}"
SOME_LEASES = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


@pytest.mark.parametrize(
    ("path", "target", "methods", "endpoint"),
    [
        (PATH, ObjectRoute(STORAGE_VERSION), COLLECTION, PATH),
        (f"{PATH}/", ObjectRoute(STORAGE_VERSION), COLLECTION, PATH),
        (f"{PATH}/a.b", ObjectRoute(STORAGE_VERSION, name="a.b"), ITEM, ONE),
        (f"{PATH}/watch", ObjectRoute(STORAGE_VERSION, name="watch"), ITEM, ONE),
        (
            f"{PATH}/a.b/status",
            ObjectRoute(STORAGE_VERSION, name="a.b", status=True),
            STATUS,
            f"{ONE}/status",
        ),
        (WATCH_PATH, ObjectRoute(STORAGE_VERSION, watches=True), READ, WATCH_PATH),
        (
            f"{WATCH_PATH}/a.b",
            ObjectRoute(STORAGE_VERSION, name="a.b", watches=True),
            READ,
            f"{WATCH_PATH}/{{name}}",
        ),
        (LEASES, ObjectRoute(LEASE), READ, LEASES),
        (NAMESPACED_LEASES, ObjectRoute(LEASE, "kube-system"), READ, SOME_LEASES),
        (
            f"{NAMESPACED_LEASES}/a",
            ObjectRoute(LEASE, "kube-system", "a"),
            READ,
            f"{SOME_LEASES}/{{name}}",
        ),
    ],
)
def test_a_path_has_its_route_methods_and_endpoint(
    path: str, target: ObjectRoute, methods: tuple[str, ...], endpoint: str
) -> None:
    """The endpoint, for metrics, has no names."""
    assert object_route(path) == target
    assert target.methods == methods
    assert target.endpoint == endpoint


@pytest.mark.parametrize(
    "path",
    [
        "/apis/internal.apiserver.k8s.io/v1alpha1",
        "/apis/internal.apiserver.k8s.io/v1alpha1/",
        "/apis/internal.apiserver.k8s.io/v1beta1/storageversions",
        "/apis/internal.apiserver.k8s.io/v1alpha1/leases",
        f"{PATH}//core.pods",
        f"{PATH}/core.pods/scale",
        f"{PATH}/core.pods/status/more",
        f"{WATCH_PATH}/core.pods/status",
        "/apis/internal.apiserver.k8s.io/v1alpha1/watch",
        "/apis/internal.apiserver.k8s.io/v1alpha1/namespaces/a/storageversions",
        f"{LEASES}/a",
        f"{NAMESPACED_LEASES}/a/status",
        "/apis/coordination.k8s.io/v1/namespaces/kube-system",
        "apis/internal.apiserver.k8s.io/v1alpha1/storageversions",
        "/api/v1/pods",
        "",
    ],
)
def test_other_paths_have_no_route(path: str) -> None:
    assert object_route(path) is None


@pytest.mark.parametrize(
    ("method", "path", "watch", "verb"),
    [
        ("GET", PATH, False, "list"),
        ("GET", PATH, True, "watch"),
        ("GET", WATCH_PATH, False, "watch"),
        ("GET", f"{PATH}/a.b", True, "get"),
        ("HEAD", f"{PATH}/a.b", False, "get"),
        ("POST", PATH, False, "create"),
        ("PUT", f"{PATH}/a.b", False, "update"),
        ("PATCH", f"{PATH}/a.b", False, "patch"),
        ("DELETE", f"{PATH}/a.b", False, "delete"),
        ("DELETE", PATH, False, "deletecollection"),
        ("BREW", PATH, False, ""),
    ],
)
def test_a_request_has_its_verb(method: str, path: str, watch: bool, verb: str) -> None:  # noqa: FBT001 - a row
    target = object_route(path)
    assert target is not None
    assert target.verb(method, watch=watch) == verb
