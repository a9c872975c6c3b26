"""Differences of fields, and checks of manifests: the real definitions of the tests, many times."""

import copy
import gzip
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from apidiscovery_client.manifests import read_manifests
from apidiscovery_client.schemas import (
    GivenSchemas,
    ReleasedSchemas,
    compare_sources,
    schemas_of_manifests,
)
from processes import Failed
from report import Clock, Row

DEFINITIONS = 500
MANIFESTS = 1000
DIFF_BUDGET_S, CHECK_BUDGET_S = 2.0, 3.0

_COMMAND = Path(sys.executable).with_name("apidiscovery")
_REPEATS = 3
_REMOVES_EACH = 10  # one definition of so many loses a field
_GIVE_UP_S = 60.0
_GOLDEN = Path(__file__).parent.parent / "tests" / "golden" / "crds" / "manifests"
_DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web-{number}
  namespace: shop
  labels: {{app: web, version: "{number}"}}
spec:
  replicas: 2
  {field}: 3
  selector:
    matchLabels: {{app: web}}
  template:
    metadata:
      labels: {{app: web}}
    spec:
      containers:
      - name: web
        image: registry.example.com/web:{number}
        ports:
        - containerPort: 8080
          name: http
        env:
        - name: LEVEL
          value: info
        - name: NAME
          valueFrom:
            fieldRef: {{fieldPath: metadata.name}}
        resources:
          requests: {{cpu: 100m, memory: 64Mi}}
          limits: {{memory: 128Mi}}
        livenessProbe:
          httpGet: {{port: http, path: /livez}}
          periodSeconds: 10
        volumeMounts:
        - name: data
          mountPath: /data
      volumes:
      - name: data
        configMap:
          name: web
---
apiVersion: v1
kind: Service
metadata: {{name: web-{number}, namespace: shop}}
spec:
  selector: {{app: web}}
  ports:
  - port: 80
    targetPort: http
"""


def measure(folder: Path, clock: Clock) -> Iterator[Row]:
    """Yield the rows of both."""
    yield from _differences(clock)
    if clock.out():
        yield Row("schemas", f"check of {MANIFESTS} manifests", "", skipped="out of time")
        return
    yield _checks(folder)


def _differences(clock: Clock) -> Iterator[Row]:
    old, new = _many()
    times, changes = list[float](), 0
    for _ in range(_REPEATS):
        if times and clock.out():
            break
        began = time.process_time()
        found = compare_sources(old, new)
        times.append(time.process_time() - began)
        if len(found.changes) < DEFINITIONS or found.failures:
            raise Failed(f"{len(found.changes)} changes, {len(found.failures)} failures")
        changes = len(found.changes)
    seconds = statistics.median(times)
    yield Row(
        "schemas",
        f"field diff of {DEFINITIONS} real definitions, {changes} changes",
        f"<= {DIFF_BUDGET_S:g} s",
        f"{seconds:.2f} s of CPU time",
        passed=seconds <= DIFF_BUDGET_S,
        numbers={"seconds": seconds, "changes": changes},
    )
    began = time.perf_counter()
    compare_sources(ReleasedSchemas("1.25"), ReleasedSchemas("1.36"))
    seconds = time.perf_counter() - began
    name = "field diff of kubernetes:1.25 and kubernetes:1.36"
    yield Row("schemas", name, "", f"{seconds:.2f} s", numbers={"seconds": seconds})


def _many() -> tuple[GivenSchemas, GivenSchemas]:
    """Return definitions in groups of their own, and the same with changes in each version."""
    definitions = [
        dict(found)
        for path in sorted(_GOLDEN.glob("*.yaml.gz"))
        for found in schemas_of_manifests(
            read_manifests(gzip.decompress(path.read_bytes()), path.name), path.name
        ).definitions.values()
    ]
    old, new = dict[str, dict[str, object]](), dict[str, dict[str, object]]()
    for number in range(DEFINITIONS):
        # Parsed anew, as those of two files have nothing in common.
        before: Any = json.loads(json.dumps(definitions[number % len(definitions)]))
        before["spec"]["group"] = f"g{number}.example.com"
        after = copy.deepcopy(before)
        for version in after["spec"]["versions"]:
            spec = version["schema"]["openAPIV3Schema"]["properties"].get("spec", {})
            _change(spec, removes=number % _REMOVES_EACH == 0)
        name = f"{before['spec']['names']['plural']}.{before['spec']['group']}"
        old[name], new[name] = before, after
    return GivenSchemas("old", old), GivenSchemas("new", new)


def _change(schema: Any, *, removes: bool) -> None:  # noqa: ANN401 - JSON
    """Add a field, limit the length of texts two levels down, and maybe remove an optional field.

    A removal takes longest where a rule looks at the fields around it.
    """
    fields = schema.setdefault("properties", {})
    optional = fields.keys() - set(schema.get("required", ()))
    if removes and optional:
        del fields[min(optional)]
    fields["added"] = {"type": "string"}
    for one in fields.values():
        for inner in one.get("properties", {}).values():
            if inner.get("type") == "string":
                inner["maxLength"] = 7


def _checks(folder: Path) -> Row:
    """Return how long the command takes for as many manifests in a file for each two."""
    manifests = folder / "manifests"
    manifests.mkdir()
    for number in range(MANIFESTS // 2):
        text = _DEPLOYMENT.format(
            number=number, field="replcas" if number % 10 == 0 else "minReadySeconds"
        )
        (manifests / f"{number}.yaml").write_text(text, encoding="utf-8")
    command: list[str | Path] = [_COMMAND, "check", "-f", manifests]
    command += ["--against", "kubernetes:1.36"]
    times = list[float]()
    for _ in range(_REPEATS):
        began = time.perf_counter()
        done = subprocess.run(command, capture_output=True, check=False, timeout=_GIVE_UP_S)
        times.append(time.perf_counter() - began)
        if done.returncode != 1 or done.stdout.count(b"unknown-field") != MANIFESTS // 20:
            raise Failed(f"check ended with {done.returncode}: {done.stderr.decode()[:200]}")
    seconds = statistics.median(times)
    return Row(
        "schemas",
        f"check of {MANIFESTS} manifests in {MANIFESTS // 2} files, the whole command",
        f"<= {CHECK_BUDGET_S:g} s",
        f"{seconds:.2f} s",
        passed=seconds <= CHECK_BUDGET_S,
        numbers={"seconds": seconds},
    )
