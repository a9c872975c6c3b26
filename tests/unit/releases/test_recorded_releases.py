"""The answers of a server of each release are complete and byte for byte."""

import hashlib
import json
from collections.abc import Callable, Collection

import pytest
from apidiscovery_releases import Release, UnknownRelease, archive, minor_of, newest, releases

RELEASES = releases()


def test_every_release_from_1_25_to_1_36_is_recorded() -> None:
    assert tuple(f"1.{minor}" for minor in range(25, 37)) == RELEASES
    assert newest() == Release("1.36")


@pytest.mark.parametrize("name", ["1.31", "v1.31", "1.31.4", "v1.31.0"])
def test_a_release_is_named_with_and_without_v_and_patch(name: str) -> None:
    assert Release.read(name) == Release("1.31")


@pytest.mark.parametrize("name", ["", "1", "2.31", "1.31-rc.1", "1.٣", "latest", "kubernetes:1.31"])
def test_other_texts_name_no_release(name: str) -> None:
    with pytest.raises(UnknownRelease, match=r"not a release of Kubernetes; write it as '1\.30'"):
        minor_of(name)


@pytest.mark.parametrize("make", [Release, Release.read])
def test_a_release_that_is_not_recorded_is_refused_with_those_that_are(
    make: Callable[[str], Release],
) -> None:
    with pytest.raises(UnknownRelease, match=r"'1\.24' of Kubernetes is not recorded; .*1\.36"):
        make("1.24")


@pytest.mark.parametrize("name", RELEASES)
def test_the_server_was_of_that_release(name: str) -> None:
    release = Release.read(name)
    assert release.version["gitVersion"].startswith(f"v{name}.")
    assert json.loads(release.version_text) == dict(release.version)


@pytest.mark.parametrize(
    ("minors", "versions"),
    [
        (range(25, 27), ()),
        (range(27, 30), ("v2beta1",)),
        (range(30, 33), ("v2", "v2beta1")),
        (range(33, 37), ("v2",)),
    ],
)
def test_aggregated_documents_are_those_that_releases_served(
    minors: range, versions: tuple[str, ...]
) -> None:
    for minor in minors:
        release = Release.read(f"1.{minor}")
        assert release.aggregated_versions == versions
        for version in ("v2", "v2beta1"):
            for path in ("/api", "/apis"):
                if version not in versions:
                    with pytest.raises(KeyError, match=f"did not serve {path} as {version}"):
                        release.aggregated(path, version)
                    continue
                document = json.loads(release.aggregated(path, version))
                assert document["apiVersion"] == f"apidiscovery.k8s.io/{version}"
                assert document["items"]


@pytest.mark.parametrize("name", RELEASES)
def test_every_group_version_of_the_lists_has_its_list_and_no_other(name: str) -> None:
    release = Release.read(name)
    groups = json.loads(release.plain("/apis"))["groups"]
    named = [f"/apis/{one['groupVersion']}" for group in groups for one in group["versions"]]
    core = [f"/api/{one}" for one in json.loads(release.plain("/api"))["versions"]]
    assert release.list_paths == tuple(sorted([*core, *named]))
    for path in release.list_paths:
        listed = json.loads(release.plain(path))
        assert path.endswith(f"/{listed['groupVersion']}")
        assert listed["resources"]


def test_a_path_that_was_not_served_is_an_error() -> None:
    with pytest.raises(KeyError, match=r"Kubernetes 1\.31 did not serve /apis/example\.com/v1"):
        Release.read("1.31").plain("/apis/example.com/v1")


@pytest.mark.parametrize("minor", range(30, 37))
def test_the_timestamp_of_groups_is_null_up_to_1_33(minor: int) -> None:
    release = Release.read(f"1.{minor}")
    assert (b'"creationTimestamp":null' in release.aggregated("/apis")) == (minor <= 33)


@pytest.mark.parametrize("name", RELEASES)
def test_openapi_documents_are_those_of_the_index(name: str) -> None:
    release = Release.read(name)
    documents = release.openapi_v3_documents()
    hashes = {key: hashlib.sha512(text).hexdigest().upper() for key, text in documents.items()}
    assert hashes == dict(release.openapi_hashes)
    assert f"?hash={hashes['api/v1']}".encode() in release.openapi_index
    assert json.loads(documents["version"])["info"] == dict(release.openapi_info)
    # These two releases publish none of apiregistration.k8s.io/v1.
    lacking = {"apis/apiregistration.k8s.io/v1"} if name in ("1.25", "1.26") else set[str]()
    assert {path.removeprefix("/") for path in release.list_paths} - hashes.keys() == lacking


def test_some_documents_are_read_alone() -> None:
    release = Release.read("1.31")
    every = release.openapi_v3_documents()
    assert release.openapi_v3("apis/apps/v1") == every["apis/apps/v1"]
    wanted = ["apis/batch/v1", "api/v1"]
    assert release.openapi_v3_documents(wanted) == {key: every[key] for key in wanted}


def test_a_document_that_was_not_there_is_an_error() -> None:
    with pytest.raises(KeyError, match=r"Kubernetes 1\.31 had no OpenAPI document of apis/nope/v1"):
        Release.read("1.31").openapi_v3("apis/nope/v1")


@pytest.mark.parametrize("name", RELEASES)
def test_openapi_v2_is_there(name: str) -> None:
    release = Release.read(name)
    document = json.loads(release.openapi_v2)
    assert document["swagger"] == "2.0"
    assert document["info"] == dict(release.openapi_info)


def test_hashes_of_documents_are_read_without_unpacking_the_documents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Unpacking takes 0.2 s, and a server states hashes from its event loop."""

    def unpacked(release: str, wanted: Collection[str]) -> dict[str, bytes]:
        raise AssertionError(f"{release}: {wanted}")

    monkeypatch.setattr(archive, "openapi", unpacked)
    release = Release("1.36")
    assert release.openapi_hashes["apis/apps/v1"] in release.openapi_index.decode()
