"""The tool that derives the facts reads generated clients of each form that existed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from repository import ROOT

TOOL = ROOT / "tools" / "release_facts.py"
LAST_OLD = 30  # in this test, later releases have clients of the new form

OLD = """\
type WidgetsGetter interface {
	Widgets(namespace string) WidgetInterface
}

type WidgetInterface interface {
	Create(*v1beta1.Widget) (*v1beta1.Widget, error)
	UpdateStatus(*v1beta1.Widget) (*v1beta1.Widget, error)
	Get(name string, options v1.GetOptions) (*v1beta1.Widget, error)
	WidgetExpansion
}

func (c *widgets) Get(name string, options v1.GetOptions) (*v1beta1.Widget, error) {
	c.client.Get().Resource("widgets").Do()
}
"""
NEW = """\
type WidgetsGetter interface {
	Widgets() WidgetInterface
}

type WidgetInterface interface {
	Create(ctx context.Context, widget *v1.Widget, opts metav1.CreateOptions) (*v1.Widget, error)
	// A comment.
	List(ctx context.Context, opts metav1.ListOptions) (*v1.WidgetList, error)
	Apply(ctx context.Context, widget *v1.WidgetApplyConfiguration) (*v1.Widget, error)
	WidgetExpansion
}

func newWidgets(c *WidgetsV1Client) *widgets {
	return &widgets{
		gentype.NewClientWithList[*v1.Widget, *v1.WidgetList](
			"widgets",
			c.RESTClient(),
		),
	}
}
"""
REVIEW = """\
type ReviewsGetter interface {
	Reviews() ReviewInterface
}

type ReviewInterface interface {
	ReviewExpansion
}
"""
REVIEW_BY_HAND = """\
func (c *reviews) Create(review *v1beta1.Review) (*v1beta1.Review, error) {
	c.client.Post().Resource("reviews").Do()
}
"""
LIFECYCLE = """\
func (in *Widget) APILifecycleRemoved() (major, minor int) {
	return 1, 22
}
"""


def git(folder: Path, *args: str, told: str = "") -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(folder), *who, *args]
    subprocess.run(command, check=True, capture_output=True, timeout=30, input=told.encode())  # noqa: S603 - git


def commit(folder: Path, files: dict[str, str], releases: range) -> None:
    """Commit these files, and tag the commit as the releases."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--allow-empty", "-m", "generated")
    tags = [f"create refs/tags/kubernetes-1.{minor}.0 HEAD\n" for minor in releases]
    git(folder, "update-ref", "--stdin", told="".join(tags))


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what the tool makes of two small repositories."""
    folder = tmp_path_factory.mktemp("repositories")
    client, api = folder / "client-go", folder / "api"
    for repository in (client, api):
        repository.mkdir()
        git(repository, "init", "--quiet")
    typed = "kubernetes/typed/batch"
    commit(
        client,
        {
            f"{typed}/v1beta1/widget.go": OLD,
            f"{typed}/v1beta1/review.go": REVIEW,
            f"{typed}/v1beta1/review_expansion.go": REVIEW_BY_HAND,
            f"{typed}/v1beta1/batch_client.go": "package v1beta1\n",
        },
        range(8, LAST_OLD + 1),
    )
    commit(client, {f"{typed}/v1/widget.go": NEW}, range(LAST_OLD + 1, 37))
    commit(api, {"batch/v1beta1/zz_generated.prerelease-lifecycle.go": LIFECYCLE}, range(8, 37))
    output = folder / "releases.json"
    command = [sys.executable, str(TOOL), str(client), str(api), str(output)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)  # noqa: S603 - ours
    document: dict[str, Any] = json.loads(output.read_bytes())
    return document


def rows(facts: dict[str, Any], version: str, name: str) -> list[list[Any]]:
    return [row for row in facts["resources"] if row[:3] == ["batch", version, name]]


def test_client_without_contexts_is_read_until_its_version_is_removed(
    facts: dict[str, Any],
) -> None:
    ((*_, kind, is_namespaced, verbs, _, _, below, is_on, releases),) = rows(
        facts, "v1beta1", "widgets"
    )
    assert (kind, is_namespaced, is_on) == ("Widget", 1, 1)
    assert facts["verbs"][verbs] == ["create", "get"]
    assert [name for name, _, _ in below] == ["status"]
    assert releases == [[8, 21]]


def test_generic_client_is_read_and_apply_is_no_verb(facts: dict[str, Any]) -> None:
    ((*_, kind, is_namespaced, verbs, _, _, below, is_on, releases),) = rows(facts, "v1", "widgets")
    assert (kind, is_namespaced, is_on, below) == ("Widget", 0, 1, [])
    assert facts["verbs"][verbs] == ["create", "list"]
    assert releases == [[LAST_OLD + 1, 36]]


def test_client_written_by_hand_can_only_create(facts: dict[str, Any]) -> None:
    ((*_, verbs, _, _, _, _, releases),) = rows(facts, "v1beta1", "reviews")
    assert facts["verbs"][verbs] == ["create"]
    assert releases == [[8, 36]]


def test_resources_without_clients_are_there(facts: dict[str, Any]) -> None:
    names = {tuple(row[:3]) for row in facts["resources"]}
    assert ("apiextensions.k8s.io", "v1", "customresourcedefinitions") in names
    assert ("", "v1", "bindings") in names


def test_tool_says_how_it_is_used() -> None:
    command = [sys.executable, str(TOOL)]
    ended = subprocess.run(command, check=False, capture_output=True, timeout=30)  # noqa: S603
    assert ended.returncode == 1
    assert b"Usage:" in ended.stderr
