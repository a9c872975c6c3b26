"""Which objects a path names, what may be done there, and how it is counted."""

import pytest
from apidiscovery_service.kube.objects.kinds import LEASE, STORAGE_VERSION
from apidiscovery_service.serving.http.objects.routes import ObjectRoute, object_route
from object_server import LEASES, NAMESPACED_LEASES, PATH, WATCH_PATH

READ = ("GET",)


@pytest.mark.parametrize(
    ("path", "target"),
    [
        (PATH, ObjectRoute(STORAGE_VERSION)),
        (f"{PATH}/", ObjectRoute(STORAGE_VERSION)),
        (f"{PATH}/core.pods", ObjectRoute(STORAGE_VERSION, name="core.pods")),
        (f"{PATH}/watch", ObjectRoute(STORAGE_VERSION, name="watch")),
        (f"{PATH}/core.pods/status", ObjectRoute(STORAGE_VERSION, name="core.pods", status=True)),
        (WATCH_PATH, ObjectRoute(STORAGE_VERSION, watches=True)),
        (f"{WATCH_PATH}/core.pods", ObjectRoute(STORAGE_VERSION, name="core.pods", watches=True)),
        (LEASES, ObjectRoute(LEASE)),
        (NAMESPACED_LEASES, ObjectRoute(LEASE, "kube-system")),
        (f"{NAMESPACED_LEASES}/a", ObjectRoute(LEASE, "kube-system", "a")),
    ],
)
def test_paths_name_objects(path: str, target: ObjectRoute) -> None:
    assert object_route(path) == target


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
def test_other_paths_name_none(path: str) -> None:
    assert object_route(path) is None


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        (PATH, ("GET", "POST", "DELETE")),
        (f"{PATH}/a.b", ("GET", "PUT", "PATCH", "DELETE")),
        (f"{PATH}/a.b/status", ("GET", "PUT", "PATCH")),
        (WATCH_PATH, READ),
        (LEASES, READ),
        (f"{NAMESPACED_LEASES}/a", READ),
    ],
)
def test_methods(path: str, methods: tuple[str, ...]) -> None:
    target = object_route(path)
    assert target is not None
    assert target.methods == methods


@pytest.mark.parametrize(
    ("path", "endpoint"),
    [
        (PATH, PATH),
        (f"{PATH}/a.b", f"{PATH}/{{name}}"),
        (f"{PATH}/a.b/status", f"{PATH}/{{name}}/status"),
        (f"{WATCH_PATH}/a.b", f"{WATCH_PATH}/{{name}}"),
        (
            f"{NAMESPACED_LEASES}/a",
            "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}",
        ),
    ],
)
def test_endpoints_have_no_names(path: str, endpoint: str) -> None:
    target = object_route(path)
    assert target is not None
    assert target.endpoint == endpoint


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
def test_verbs(method: str, path: str, watch: bool, verb: str) -> None:  # noqa: FBT001 - a row
    target = object_route(path)
    assert target is not None
    assert target.verb(method, watch=watch) == verb
