"""Attributes of requests; the cases are those of k8s.io/apiserver requestinfo_test.go."""

import pytest
from apidiscovery_client.storage_versions import (
    RequestAttributes,
    UnreadablePath,
    request_attributes,
)
from hypothesis import given
from hypothesis import strategies as st


def info(method: str, url: str) -> RequestAttributes:
    path, _, query = url.partition("?")
    return request_attributes(method, path, query)


POD = "/api/v1/namespaces/other/pods/foo"


# Verb, group, version, namespace, resource, subresource, name.
TABLE = [
    ("GET", "/api/v1/namespaces", "list", "", "v1", "", "namespaces", "", ""),
    ("GET", "/api/v1/namespaces/other", "get", "", "v1", "other", "namespaces", "", "other"),
    ("GET", "/api/v1/namespaces/other/pods", "list", "", "v1", "other", "pods", "", ""),
    ("GET", POD, "get", "", "v1", "other", "pods", "", "foo"),
    ("HEAD", POD, "get", "", "v1", "other", "pods", "", "foo"),
    ("GET", "/api/v1/pods", "list", "", "v1", "", "pods", "", ""),
    ("HEAD", "/api/v1/pods", "list", "", "v1", "", "pods", "", ""),
    # special verbs
    (
        "GET",
        "/api/v1/proxy/namespaces/other/pods/foo",
        *("proxy", "", "v1", "other", "pods", "", "foo"),
    ),
    (
        "GET",
        "/api/v1/proxy/namespaces/other/pods/foo/subpath/not/a/subresource",
        *("proxy", "", "v1", "other", "pods", "", "foo"),
    ),
    ("GET", "/api/v1/watch/pods", "watch", "", "v1", "", "pods", "", ""),
    ("GET", "/api/v1/pods?watch=true", "watch", "", "v1", "", "pods", "", ""),
    ("GET", "/api/v1/pods?watch=false", "list", "", "v1", "", "pods", "", ""),
    (
        "GET",
        "/api/v1/watch/namespaces/other/pods",
        *("watch", "", "v1", "other", "pods", "", ""),
    ),
    (
        "GET",
        "/api/v1/namespaces/other/pods?watch=1",
        *("watch", "", "v1", "other", "pods", "", ""),
    ),
    (
        "GET",
        "/api/v1/namespaces/other/pods?watch=0",
        *("list", "", "v1", "other", "pods", "", ""),
    ),
    # subresources
    ("GET", f"{POD}/status", "get", "", "v1", "other", "pods", "status", "foo"),
    ("GET", f"{POD}/proxy/subpath", "get", "", "v1", "other", "pods", "proxy", "foo"),
    (
        "PUT",
        "/api/v1/namespaces/other/finalize",
        *("update", "", "v1", "other", "namespaces", "finalize", "other"),
    ),
    (
        "PUT",
        "/api/v1/namespaces/other/status",
        *("update", "", "v1", "other", "namespaces", "status", "other"),
    ),
    # verbs
    ("PATCH", POD, "patch", "", "v1", "other", "pods", "", "foo"),
    ("DELETE", POD, "delete", "", "v1", "other", "pods", "", "foo"),
    ("POST", "/api/v1/namespaces/other/pods", "create", "", "v1", "other", "pods", "", ""),
    # deletecollection
    ("DELETE", "/api/v1/nodes", "deletecollection", "", "v1", "", "nodes", "", ""),
    ("DELETE", "/api/v1/namespaces", "deletecollection", "", "v1", "", "namespaces", "", ""),
    (
        "DELETE",
        "/api/v1/namespaces/other/pods",
        *("deletecollection", "", "v1", "other", "pods", "", ""),
    ),
    (
        "DELETE",
        "/apis/extensions/v1/namespaces/other/pods",
        *("deletecollection", "extensions", "v1", "other", "pods", "", ""),
    ),
    # groups and versions
    (
        "POST",
        "/apis/extensions/v1/namespaces/other/pods",
        *("create", "extensions", "v1", "other", "pods", "", ""),
    ),
    (
        "POST",
        "/apis/extensions/v1beta3/namespaces/other/pods",
        *("create", "extensions", "v1beta3", "other", "pods", "", ""),
    ),
    # beyond the table: a method that Kubernetes has no verb for
    ("OPTIONS", "/api/v1/pods", "", "", "v1", "", "pods", "", ""),
]


@pytest.mark.parametrize(("method", "url", "fields"), [(row[0], row[1], row[2:]) for row in TABLE])
def test_resources(method: str, url: str, fields: tuple[str, ...]) -> None:
    verb, group, version, namespace, resource, subresource, name = fields
    expected = RequestAttributes(
        verb, group, resource, namespace, subresource, version=version, name=name
    )
    assert info(method, url) == expected


@pytest.mark.parametrize(
    ("url", "is_resource"),
    [
        ("/", False),
        ("", False),
        ("/api/version/", False),
        ("/apis/group/version/", False),
        ("/badprefix/version/resource", False),
        ("/apis/version/resource", False),
        ("/api/version/resource", True),
        ("/apis/group/version/resource/name/subresource", True),
        ("/api/version/resource/name/subresource", True),
        ("/apis/batch/v1/job", True),
        ("/apis/batch/v1/job/foo", True),
        ("/apis/batch/v1/job/foo/scale", True),
        ("/not-api/version/resource", False),
        ("/apis/extensions/v1beta1", False),
        ("/apis/extensions/v1beta1/", False),
        ("/api/version", False),
        ("/api", False),
        ("/healthz", False),
    ],
)
def test_paths_are_of_resources_or_not(url: str, *, is_resource: bool) -> None:
    seen = info("GET", url)
    assert seen.is_resource is is_resource
    assert seen.verb == ("get" if not is_resource or "job/foo" in url or "name" in url else "list")


SELECTED = "/apis/group/version/resource?"


@pytest.mark.parametrize(
    ("method", "url", "verb", "name"),
    [
        ("GET", "/apis/group/version/resource", "list", ""),
        ("GET", f"{SELECTED}fieldSelector=metadata.name=name1", "list", "name1"),
        ("GET", f"{SELECTED}watch=true&fieldSelector=metadata.name=name1", "watch", "name1"),
        ("GET", f"{SELECTED}fieldSelector=foo=bar&labelSelector=baz=qux", "list", ""),
        ("GET", f"{SELECTED}fieldSelector=metadata.name=name1,foo", "list", ""),
        ("GET", f"{SELECTED}fieldSelector=metadata.name=name1,foo&watch=true", "watch", ""),
        ("GET", f"{SELECTED}fieldSelector=metadata.name=name1,foo&watch=false", "list", ""),
        (
            "DELETE",
            f"{SELECTED}fieldSelector=foo=bar&labelSelector=baz=qux",
            "deletecollection",
            "",
        ),
        (
            "GET",
            f"{SELECTED}fieldSelector=metadata.name=foo&fieldSelector=metadata.name=bar",
            *("list", "foo"),
        ),
        ("GET", "/apis/group/version/resource/name?fieldSelector=foo=bar", "get", "name"),
        (
            "GET",
            "/apis/group/version/watch/resource?fieldSelector=metadata.name=foo",
            *("watch", ""),
        ),
        (
            "GET",
            "/apis/group/version/watch/resource/name?fieldSelector=metadata.name=foo",
            *("watch", "name"),
        ),
        # beyond the table
        ("GET", f"{SELECTED}fieldSelector=metadata.name%3D%3Dname1", "list", "name1"),
        ("GET", f"{SELECTED}fieldSelector=metadata.name!=name1", "list", ""),
        ("GET", f"{SELECTED}fieldSelector=a=b\\,c,metadata.name=n", "list", "n"),
        ("GET", f"{SELECTED}fieldSelector=metadata.name=a=b", "list", ""),
        ("GET", f"{SELECTED}fieldSelector=metadata.name=..", "list", ""),
        ("GET", f"{SELECTED}watch", "watch", ""),
        ("GET", f"{SELECTED}watch=FALSE&watch=true", "list", ""),
        ("GET", f"{SELECTED}watch=%zz", "list", ""),
    ],
)
def test_selectors(method: str, url: str, verb: str, name: str) -> None:
    seen = info(method, url)
    assert (seen.verb, seen.name) == (verb, name)


@pytest.mark.parametrize("path", ["/api/v1/watch", "/apis/apps/v1/proxy"])
def test_a_verb_in_the_path_needs_a_resource(path: str) -> None:
    with pytest.raises(UnreadablePath, match=f"^unable to determine .* from url, {path}$"):
        info("GET", path)


def test_attributes_have_the_user() -> None:
    seen = request_attributes("GET", "/api/v1/pods", user="eve", groups=["readers"])
    assert (seen.user, list(seen.groups)) == ("eve", ["readers"])


PARTS = st.lists(
    st.sampled_from(["api", "apis", "v1", "", "watch", "namespaces", "x", "status"]), max_size=6
)
QUERIES = st.lists(
    st.sampled_from(["watch=true", "watch", "fieldSelector=metadata.name=a", "%", "=", "a=b"]),
    max_size=3,
).map("&".join)


@given(st.sampled_from(["POST", "PUT", "PATCH", "DELETE"]), PARTS, QUERIES)
def test_a_write_is_taken_for_a_read_only_by_a_verb_in_its_path(
    method: str, parts: list[str], query: str
) -> None:
    try:
        seen = request_attributes(method, "/" + "/".join(parts), query)
    except UnreadablePath:
        return
    assert seen.verb not in {"get", "list"}
    assert seen.verb != "watch" or "watch" in parts
