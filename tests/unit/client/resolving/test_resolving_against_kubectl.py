"""A text leads to the resource that kubectl asks for, with kubectl's warnings."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from ambiguous_cluster import aggregated_routes, ambiguous_groups, plain_routes, real_groups
from apidiscovery_client._errors import NotServed
from apidiscovery_client.model import CURRENT, Group, Snapshot, Stale, Version
from apidiscovery_client.resolving import Resolution, Resolver
from client_snapshots import WHEN, snapshot
from fake_api_server import FakeApiServer, Routes
from markers import IS_LONG
from programs import kubectl


def texts(lines: str) -> list[str]:
    return lines.split()


REAL = texts("""
pods pod po Pod POD PO pO pods.v1. pod.v1. Pod.v1. po.v1. pods.v2. pods. pod. po. pods.v1
pods.core deployments deployment deploy Deployment DEPLOYMENTS deploys deployments.apps
deployment.apps deploy.apps Deployment.apps DEPLOY.apps deployments.app deploy.ap deployments.a
deployments.v1.apps Deployment.v1.apps deploy.v1.apps deploy.v9.apps deployments.v9.apps
deployments.v1.app deploy.v1.app deployments.apps.v1 deployments.extensions deploy.extensions hpa
hpa.autoscaling hpa.auto hpa.v1.autoscaling hpa.v2.autoscaling hpa.v1.auto
horizontalpodautoscalers.v1.autoscaling HorizontalPodAutoscaler
HorizontalPodAutoscaler.v1.autoscaling horizontalpodautoscaler.autosc events event ev
events.events.k8s.io ev.events.k8s.io ev.events events.v1. ev.v1. Event.v1.events.k8s.io endpoints
endpoint ep endpointslices componentstatuses cs componentstatus sc storageclass.storage
storageclasses.storage.k8s sc.stor nodes no Node nodes.v1. crd crds
customresourcedefinitions.apiextensions.k8s.io CustomResourceDefinition.apiextensions.k8s.io
netpol networkpolicies NetworkPolicy ing ingress Ingress ingresses.networking.k8s.io
ing.networking.k8s.io ing.v1.networking.k8s.io ing.v1.networking certificates cert certs
certificate certificates.cert-manager.io Certificate.cert-manager.io cert.cert-manager.io
cert.cert issuers.cert-manager.io csr certificatesigningrequests gateways gtw
gateways.gateway.networking.k8s.io gateways.v1beta1.gateway.networking.k8s.io
gtw.v1beta1.gateway.networking.k8s.io httproutes HTTPRoute httproute.gateway
applications.argoproj.io app apps app.argo appset prom prometheuses prometheus PrometheusRule
promrule servicemonitors.monitoring.coreos.com smon.mon bindings tokenreviews
selfsubjectreviews.authentication.k8s.io podlist.v1 pods.__internal. deployments.__internal.apps
deployments.__internal.ap Depoyment pod.apps .apps . .. .v1. v1 Kind
""")

AMBIGUOUS = texts("""
pods po pods.v1. pods.v2. po.v2. po.v9. Pod.v2. cores cr core pods.clash.io po.clash
pod.v1.clash.io deploy deployments Deployment deployments.apps deploy.apps deployments.early.io
deploy.early.io deploy.early deploy.e deployments.v1. deploy.v1. deployments.clash ev events
events.events netpol netpol.early.io netpol.networking.k8s.io ing ingresses wd w widgets Widget
WIDGET widgets.acme.io wd.acme.io wd.acme widgets.acme wd.v1beta1.acme.io wd.v1beta1.acme
widgets.v1beta1.acme.io widgets.v1alpha1.acme.io Widget.v1alpha1.acme.io widgets.v1beta1.
widgets.v2. wd.v2. widgets.v1alpha1. gadgets gd gadget.acme.io gd.acme gadgets.v1.acme.io
gadgets.v1alpha1.acme.io Gadget.acme.io gd.v1.acme oldies od oldies.acme.io od.v1.acme.io stuffs
things thing things.example things.example.com things.acme things.acme.io dup dup.acme.io
dup.example dup.example.com dup.ex widgets.example widgets.example.com widgets.exam wd.example
wd.example.com wd.exam Widget.example Widget.example.com widgets.v1.example widgets.v2.example
widgets.v2.example.com wd.v2.example wd.v2.exam extras ex wdx.example wdx.example.com
widgets.example.com.other widgets.com.other foos foo fo Foo bars bar br foos.twins.io
bars.v1.twins.io Foo.twins.io Foo.v1.twins.io foo.twins mice mouse mi mo Mouse Mouser
mouse.twins.io mouse.v1.twins.io mouser rodent rats voles Rat rat Vole fancythings fancything
Fancy fancy fn Fancy.odd.io fancy.odd.io FANCY.odd.io Fancy.odd Fancy.v1.odd.io fancy.v2.odd.io
Fancy.v3.odd.io fn.v1.odd.io shouts Shout shout SH sh SH.odd.io nosingulars nosingular NoSingular
nosingular.odd.io lowers low lower lower.odd.io sheep baa Sheep widgets.v2.ver.io
widgets.v1.ver.io widgets.ver.io widgets.ver verses vs vs.v2.ver.io widgets.v1.both.io
gadgets.v1.both.io widgets.v3.both.io widgets.v3.v1.both.io gadgets.v3.v1.both.io gadgets.v1.both
wd.v1.both.io wd.v1.both solo
""")


class Asked(NamedTuple):
    """The paths that are asked for, and the warnings."""

    paths: tuple[str, ...]
    warnings: tuple[str, ...]


class Cluster:
    """A server, and a folder where kubectl caches what it says."""

    def __init__(
        self, server: FakeApiServer, folder: Path, known: Snapshot, routes: Routes
    ) -> None:
        self._server = server
        self._documents = {*routes, "/version"}
        self._folder = folder
        self.resolver = Resolver(known)

    def kubectl(self, *texts: str) -> Asked:
        """Return what kubectl asks for to list the objects of some types."""
        before = len(self._server.requests)
        types = ",".join(texts)
        done = kubectl(self._folder, "--server", self._server.url, "get", types, "--all-namespaces")
        paths = self._server.paths[before:]
        lines = done.stderr.splitlines()
        return Asked(
            tuple(path for path in paths if path not in self._documents),
            tuple(line[9:] for line in lines if line.startswith("Warning: ")),
        )

    def ours(self, *texts: str) -> Asked:
        found = [one for text in texts if (one := self._resolved(text))]
        return Asked(
            tuple(one.resource.path for one in found),
            tuple(warning for one in found for warning in one.warnings),
        )

    def _resolved(self, text: str) -> Resolution | None:
        try:
            return self.resolver.resolve(text)
        except NotServed:
            return None

    def assert_asked_alike(self, texts: Sequence[str]) -> None:
        """Compare us with kubectl, which takes many types at once.

        It asks once for types of the same kind, and for nothing where one does not exist. So the
        types of a command have different kinds, and one that does not exist is alone. Of those a
        run that is not long compares every third.
        """
        missing = list[str]()
        commands = list[dict[object, str]]()
        for text in texts:
            found = self._resolved(text)
            if found is None:
                missing.append(text)
                continue
            kind = (found.resource.gv, found.resource.kind)
            command = next((one for one in commands if kind not in one), None)
            if command is None:
                commands.append(command := {})
            command[kind] = text
        alone = ((one,) for one in missing[:: 1 if IS_LONG else 3])
        for types in (*(tuple(one.values()) for one in commands), *alone):
            assert self.ours(*types) == self.kubectl(*types), types


@contextmanager
def cluster(
    tmp: pytest.TempPathFactory, groups: Sequence[Group], routes: Routes
) -> Generator[Cluster]:
    with FakeApiServer(routes) as server:
        yield Cluster(server, tmp.mktemp("kubectl"), snapshot(*groups), routes)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    groups = real_groups()
    with cluster(tmp_path_factory, groups, aggregated_routes(groups)) as found:
        yield found


@pytest.fixture(scope="module")
def ambiguous(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    groups = ambiguous_groups()
    with cluster(tmp_path_factory, groups, aggregated_routes(groups)) as found:
        yield found


def test_on_real_groups_a_text_means_what_kubectl_takes_it_for(real: Cluster) -> None:
    real.assert_asked_alike(REAL)


def test_among_clashing_names_a_text_means_what_kubectl_takes_it_for(ambiguous: Cluster) -> None:
    ambiguous.assert_asked_alike(AMBIGUOUS)


@pytest.mark.parametrize(
    "text", ["all", "acme", "api-extensions", "gizmos", "solo", "cert-manager", "gateway-api"]
)
def test_a_category_is_the_resources_that_kubectl_asks_for_in_its_order(
    ambiguous: Cluster, text: str
) -> None:
    ours = tuple(found.path for found in ambiguous.resolver.category(text))
    assert ours == ambiguous.kubectl(text).paths
    assert ours


def test_the_list_of_a_kind_is_no_resource_though_kubectl_makes_one_up(ambiguous: Cluster) -> None:
    assert ambiguous.kubectl("podlist").paths == ("/api/v1/podlists",)
    assert ambiguous.ours("podlist").paths == ()


OLD_TEXTS = texts("""
widgets wd Widget gadgets gd things widgets.acme.io widgets.v1beta1.acme.io wd.v1beta1.acme oldies
od widgets.ex wd.ex nosingulars nosingular NoSingular widgets.v1.
""")


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a server that prefers another version than the first, in unaggregated documents."""
    core, *others = ambiguous_groups()
    late = [replace(one, stated_preference=one.versions[-1].name) for one in others[-12:]]
    core_v1 = Group("", core.versions[1:], "v1")  # others are not asked for at /api
    groups = (core_v1, *late)
    with cluster(tmp_path_factory, groups, plain_routes(groups)) as found:
        yield found


def test_a_stated_preference_counts_as_it_does_for_kubectl(old: Cluster) -> None:
    old.assert_asked_alike(OLD_TEXTS)


STALE_TEXTS = texts("""
widgets wd widgets.acme.io oldies.acme.io gadgets.acme.io widgets.v1beta1.acme.io gd.acme
""")


def _stale(one: Version) -> Version:
    freshness = Stale(WHEN, "stale GroupVersion discovery")
    return replace(one, freshness=freshness, stated_freshness="Stale")


@pytest.fixture(scope="module")
def stale(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a server where the preferred version of a group does not answer."""
    first, *rest = next(one for one in ambiguous_groups() if one.name == "acme.io").versions
    groups = (real_groups()[0], Group("acme.io", (_stale(first), *rest)))
    with cluster(tmp_path_factory, groups, aggregated_routes(groups)) as found:
        yield found


def test_a_version_that_answers_is_taken_before_a_stale_one_as_by_kubectl(stale: Cluster) -> None:
    stale.assert_asked_alike(STALE_TEXTS)
    assert {stale.resolver.resolve(text).freshness for text in STALE_TEXTS} == {CURRENT}


def test_what_only_a_stale_version_has_is_found_though_kubectl_hides_it(stale: Cluster) -> None:
    assert stale.kubectl("stuffs").paths == ()
    found = stale.resolver.resolve("stuffs")
    assert (found.resource.path, found.freshness) == (
        "/apis/acme.io/v1/stuffs",
        Stale(WHEN, "stale GroupVersion discovery"),
    )
