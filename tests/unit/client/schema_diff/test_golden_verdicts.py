"""The verdicts are what a real kube-apiserver answered, as it was recorded."""

import json
from typing import Any

import pytest
from apidiscovery_client.schema_diff import compare
from apidiscovery_client.schema_diff.model import worst
from repository import GOLDEN

_RECORDS = json.loads((GOLDEN / "schema-diff" / "field-verdicts.json").read_text("utf-8"))


@pytest.mark.parametrize("record", _RECORDS, ids=lambda record: record["name"])
def test_the_worst_verdict_at_a_path_is_what_the_server_did(record: dict[str, Any]) -> None:
    changes = compare(record["old"], record["new"], path="spec")

    told = [change.verdicts for change in changes if change.path == record["path"]]

    assert worst(one.writer for one in told) == record["writer"]
    assert worst(one.stored for one in told) == record["update_of_stored"]
