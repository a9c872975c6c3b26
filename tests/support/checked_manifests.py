"""Valid objects of several kinds, and copies of them with one change."""

import copy
from collections.abc import Iterator
from typing import Any, cast

import yaml

Json = Any
Step = str | int

_BUILT_IN = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {a: b}, annotations: {a: b}}
spec:
  replicas: 2
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 25%}}
  selector: {matchLabels: {app: web}, matchExpressions: [{key: app, operator: Exists}]}
  template:
    metadata: {labels: {app: web}, creationTimestamp: null}
    spec:
      containers:
      - name: web
        image: nginx
        ports: [{containerPort: 80, name: http, protocol: TCP}]
        env: [{name: X, value: x}, {name: Z, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        resources: {limits: {cpu: 1, memory: 64Mi}}
        livenessProbe: {httpGet: {port: http, path: /}, periodSeconds: 5}
        securityContext: {runAsUser: 1, capabilities: {drop: [ALL]}}
        volumeMounts: [{name: v, mountPath: /v}]
      volumes: [{name: v, emptyDir: {}}]
---
apiVersion: v1
kind: Secret
metadata: {name: s}
type: Opaque
data: {a: aGVsbG8=}
stringData: {b: c}
immutable: true
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: ClusterIP
  selector: {app: web}
  ports: [{port: 80, targetPort: http, protocol: TCP, name: a}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec:
  rules:
  - host: a.example.com
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: r}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
"""
_CUSTOM = """
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: c, labels: {a: b}}
spec:
  secretName: s
  issuerRef: {name: i, kind: Issuer, group: cert-manager.io}
  dnsNames: [a.example.com]
  duration: 1h
  privateKey: {algorithm: RSA, size: 2048}
  usages: [server auth]
  keystores: {jks: {create: true, passwordSecretRef: {name: a, key: b}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r}
spec:
  parentRefs: [{name: g, sectionName: http}]
  hostnames: [a.example.com]
  rules:
  - matches: [{path: {type: PathPrefix, value: /}, headers: [{name: a, value: b}]}]
    backendRefs: [{name: web, port: 80, weight: 1}]
"""
_VALUES: tuple[Json, ...] = (None, "zz", 7, True, [], {}, ["a"], {"a": "b"}, 1.5)


def built_in() -> list[Json]:
    """Return objects of built-in kinds."""
    return list(yaml.safe_load_all(_BUILT_IN))


def custom() -> list[Json]:
    """Return objects of cert-manager and gateway-api."""
    return list(yaml.safe_load_all(_CUSTOM))


def changed(whole: Json) -> Iterator[tuple[str, Json]]:
    """Yield copies of an object with each field removed, renamed, or with another value."""
    kept = {("apiVersion",), ("kind",), ("metadata",), ("metadata", "name")}
    for path in _paths(whole, ()):
        if path in kept:
            continue
        text = ".".join(map(str, path))
        yield f"{text} gone", _put(whole, path, gone=True)
        yield f"{text} renamed", _put(whole, path, renamed=True)
        for value in _VALUES:
            yield f"{text} is {value!r}", _put(whole, path, value=value)


def _paths(value: Json, above: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    steps: list[tuple[Step, Json]] = (
        list(cast("dict[Step, Json]", value).items())
        if isinstance(value, dict)
        else list(enumerate(cast("list[Json]", value)))
    )
    for step, inner in steps:
        yield (*above, step)
        if isinstance(inner, dict | list):
            yield from _paths(inner, (*above, step))


def _put(
    whole: Json,
    path: tuple[Step, ...],
    *,
    value: Json = None,
    gone: bool = False,
    renamed: bool = False,
) -> Json:
    made = copy.deepcopy(whole)
    around = made
    for step in path[:-1]:
        around = around[step]
    if gone:
        del around[path[-1]]
    elif renamed and isinstance(path[-1], str):
        around[f"{path[-1]}x"] = around.pop(path[-1])
    elif not renamed:
        around[path[-1]] = value
    return made
