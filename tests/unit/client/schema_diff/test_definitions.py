"""Changes of CustomResourceDefinitions beyond the table in docs/schema-diff.md."""

import copy
from typing import Any

from apidiscovery_client.schema_diff import changes_json, compare_definitions
from real_cluster import definition


def _old() -> dict[str, Any]:
    crd = definition("widgets", "Widget", "v1", "v2")
    crd["status"] = {"storedVersions": ["v1"]}
    for version in crd["spec"]["versions"]:
        version["schema"] = copy.deepcopy(version["schema"])
    return crd


def test_another_singular_name_and_categories_are_fine() -> None:
    new = _old()
    new["spec"]["names"].update(singular="gadget", categories=["all"])

    changes = compare_definitions(_old(), new)

    assert {one.change for one in changes} == {"names-changed"}
    told = [(one.verdicts.writer, one.verdicts.reader, one.verdicts.stored) for one in changes]
    assert told == [("fine", "fine", "fine")] * 2


def test_a_changed_webhook_is_not_decided() -> None:
    webhook = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}}
    old, new = _old(), _old()
    old["spec"]["conversion"] = new["spec"]["conversion"] = webhook
    assert not compare_definitions(old, new)
    new["spec"]["conversion"] = {**webhook, "webhook": {"conversionReviewVersions": ["v2"]}}

    (change,) = compare_definitions(old, new)

    assert (change.change, change.verdicts.stored) == ("conversion-changed", "unknown")
    assert change.verdicts.reason


def test_a_version_that_was_not_served_can_be_removed() -> None:
    old, new = _old(), _old()
    old["spec"]["versions"][1]["served"] = False
    del new["spec"]["versions"][1]

    (change,) = compare_definitions(old, new)

    assert (change.change, change.verdicts.writer) == ("version-removed", "fine")


def test_a_change_is_written_as_json() -> None:
    new = _old()
    fields = new["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    fields["size"] = {**fields["size"], "maximum": 3}

    assert changes_json(compare_definitions(_old(), new)) == {
        "changes": [
            {
                "group": "example.com",
                "version": "v1",
                "kind": "Widget",
                "path": "size",
                "change": "maximum-added",
                "before": None,
                "after": 3,
                "writer": "rejected",
                "reader": "fine",
                "stored": "fine",
                "applier": "fine",
            }
        ]
    }
