"""Pairs of schemas on a real kube-apiserver: how it treats a manifest and a stored object.

Each pair is a property of `spec`, so that two CustomResourceDefinitions are enough for hundreds.
"""

import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast

import pytest
from json_walks import is_array, is_object
from real_cluster import RealCluster

_GROUP = "trials.example.com"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_OBJECTS = f"/apis/{_GROUP}/v1/namespaces/default"
_SETTLED_S = 30.0


@dataclass(frozen=True, slots=True)
class Trial:
    """A pair of schemas of a field, and a value of that field."""

    old: dict[str, Any]
    new: dict[str, Any]
    value: Any


class RefusedError(Exception):
    """The server refuses a definition.

    Attributes:
        trials: The numbers of the pairs whose schema it refuses.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.trials = {int(found) for found in re.findall(r"properties\[f(\d+)\]", message)}


@dataclass(frozen=True, slots=True)
class Told:
    """The outcome of a trial.

    Attributes:
        before: The value as the old definition keeps it; None where it refuses it.
        writer: The outcome of writing the manifest under the new definition.
        stored: The outcome for the stored object when only a label of it changes.
        after: The value as the new definition keeps it.
        message: Why it refused.
    """

    before: Any
    writer: str
    stored: str
    after: Any = None
    message: str = ""


def outcome(before: Any, after: Any, sent: Any) -> str:  # noqa: ANN401 - JSON
    """Return `fine`, `pruned` or `defaulted` for a value under the old and the new definition.

    It is pruned where a part of the manifest is lost. A null that was dropped before and is kept
    now is no change.
    """
    if before == after and json.dumps(before, sort_keys=True) == json.dumps(after, sort_keys=True):
        return "fine"
    if _lost(before, after, sent):
        return "pruned"
    return "fine" if _same_but_null(before, after) else "defaulted"


def _lost(before: Any, after: Any, sent: Any) -> bool:  # noqa: ANN401 - JSON
    if is_object(before) and is_object(after) and is_object(sent):
        return any(
            key not in after or _lost(value, after[key], sent[key])
            for key, value in before.items()
            if key in sent and (value is None or sent[key] is not None)
        )
    if is_array(before) and is_array(after) and is_array(sent):
        return any(map(_lost, before, after, sent))
    return False


def _same_but_null(before: Any, after: Any) -> bool:  # noqa: ANN401 - JSON
    if is_object(before) and is_object(after):
        return before.keys() <= after.keys() and all(
            _same_but_null(before[key], value) if key in before else value is None
            for key, value in after.items()
        )
    if is_array(before) and is_array(after) and len(before) == len(after):
        return all(map(_same_but_null, before, after))
    return bool(before == after)


class Server:
    """A kube-apiserver on which schemas are tried."""

    def __init__(self, cluster: RealCluster) -> None:
        self._cluster = cluster

    def ask(self, verb: str, path: str, body: object = None, kind: str = "") -> tuple[int, Any]:
        """Return the status and the JSON of the answer."""
        answer = self._cluster.ask(verb, path, body, content_type=kind or "application/json")
        is_json = "json" in answer.headers.get("content-type", "")
        return answer.status, answer.json() if is_json else {"message": answer.body.decode()}

    def define(self, plural: str, schema: dict[str, Any]) -> None:
        """Create or replace a definition, and wait until it is in use."""
        name = f"{plural}.{_GROUP}"
        kind = plural.capitalize()
        marked = {**schema, "properties": {**schema.get("properties", {})}}
        marker = f"marker{time.monotonic_ns()}"
        marked["properties"][marker] = {"type": "string"}
        body: dict[str, Any] = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": {
                "group": _GROUP,
                "scope": "Namespaced",
                "names": {"plural": plural, "kind": kind},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": marked},
                    }
                ],
            },
        }
        status, found = self.ask("GET", f"{_CRDS}/{name}")
        if status == HTTPStatus.OK:
            body["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
            status, answer = self.ask("PUT", f"{_CRDS}/{name}", body)
        else:
            status, answer = self.ask("POST", _CRDS, body)
        if status >= HTTPStatus.BAD_REQUEST:
            raise RefusedError(str(answer["message"]))
        end = time.monotonic() + _SETTLED_S
        path = f"{_OBJECTS}/{plural}?dryRun=All&fieldValidation=Strict"
        while time.monotonic() < end:
            status, answer = self.ask("POST", path, self._object(plural, "marker", {marker: "x"}))
            known = "unknown field" not in str(answer.get("message", ""))
            if status != HTTPStatus.NOT_FOUND and known:
                return
            time.sleep(0.1)
        pytest.fail(f"the definition is not in use after {_SETTLED_S} s: {answer}")

    @staticmethod
    def _object(plural: str, name: str, fields: dict[str, Any]) -> dict[str, Any]:
        return {
            "apiVersion": f"{_GROUP}/v1",
            "kind": plural.capitalize(),
            "metadata": {"name": name},
            **fields,
        }

    def create(
        self, plural: str, name: str, fields: dict[str, Any], *, dry: bool
    ) -> tuple[int, Any]:
        """Create an object."""
        path = f"{_OBJECTS}/{plural}" + ("?dryRun=All" if dry else "")
        return self.ask("POST", path, self._object(plural, name, fields))

    def label(self, plural: str, name: str) -> tuple[int, Any]:
        """Update only a label of an object, as a dry run."""
        path = f"{_OBJECTS}/{plural}/{name}?dryRun=All"
        patch = {"metadata": {"labels": {"touched": "yes"}}}
        return self.ask("PATCH", path, patch, "application/merge-patch+json")

    def roots(self, plural: str, old: Any, new: Any, fields: dict[str, Any]) -> Told:  # noqa: ANN401
        """Try schemas of whole objects."""
        self.define(plural, old)
        status, kept = self.create(plural, "root", fields, dry=False)
        if status >= HTTPStatus.BAD_REQUEST:
            return Told(None, "", "", message=kept["message"])
        self.define(plural, new)
        return self._told(plural, "root", fields, _fields(kept), None)

    def _told(
        self, plural: str, name: str, manifest: dict[str, Any], kept: object, field: str | None
    ) -> Told:
        def part(answer: Any) -> Any:  # noqa: ANN401 - JSON
            found = _fields(answer)
            return found if field is None else found.get("spec", {}).get(field, "(none)")

        before: Any = part(kept) if field is not None else kept
        sent = manifest if field is None else manifest["spec"][field]
        status, made = self.create(plural, f"{name}-new", manifest, dry=True)
        refused = status >= HTTPStatus.BAD_REQUEST
        writer = "rejected" if refused else outcome(before, part(made), sent)
        message = str(made.get("message", "")) if refused else ""
        status, touched = self.label(plural, name)
        bad = status >= HTTPStatus.BAD_REQUEST
        if bad:
            message += " / stored: " + str(touched.get("message", ""))
        stored = "rejected" if bad else outcome(before, part(touched), before)
        return Told(before, writer, stored, None if refused else part(made), message)

    def trials(self, plural: str, trials: Sequence[Trial]) -> list[Told]:
        """Try pairs, all in two definitions.

        Raises:
            RefusedError: The server refuses the schema of a pair.
        """

        def schema(fields: dict[str, Any]) -> dict[str, Any]:
            spec = {"type": "object", "properties": fields}
            return {"type": "object", "properties": {"spec": spec}}

        self.define(plural, schema({f"f{at}": trial.old for at, trial in enumerate(trials)}))
        manifests = [{"spec": {f"f{at}": trial.value}} for at, trial in enumerate(trials)]
        made = [self.create(plural, f"o{at}", one, dry=False) for at, one in enumerate(manifests)]
        self.define(plural, schema({f"f{at}": trial.new for at, trial in enumerate(trials)}))
        told = list[Told]()
        for at, (manifest, (status, kept)) in enumerate(zip(manifests, made, strict=True)):
            if status >= HTTPStatus.BAD_REQUEST:
                told.append(Told(None, "", "", message=str(kept["message"])))
            else:
                told.append(self._told(plural, f"o{at}", manifest, kept, f"f{at}"))
        return told


def _fields(found: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    kept = cast("dict[str, Any]", found)
    return {
        key: value for key, value in kept.items() if key not in ("apiVersion", "kind", "metadata")
    }
