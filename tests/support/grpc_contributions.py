"""Contributions for tests: made by hand, at random, and by hypothesis."""

import random
from dataclasses import replace

from apidiscovery_service.core.model import (
    LAST_RANK,
    Contribution,
    GroupVersionKind,
    Offer,
    Precedence,
    Resource,
    Subresource,
    Version,
)
from apidiscovery_service.core.registry import Registry
from hypothesis import strategies as st

CRONTABS = Resource(
    "crontabs",
    GroupVersionKind("", "", "CronTab"),
    "Namespaced",
    "crontab",
    ("get", "list", "watch"),
    short_names=("ct",),
    categories=("all",),
    subresources=(Subresource("status", GroupVersionKind("", "", "CronTab"), ("get", "patch")),),
)


def resource(name: str, *categories: str) -> Resource:
    return replace(CRONTABS, resource=name, singular_resource=name, categories=categories)


def offer(group: str, *resources: Resource, version: str = "v1", priority: int = 1000) -> Offer:
    return Offer(group, Version(version, resources or (CRONTABS,)), priority, 15)


def contribution(source: str, *offers: Offer) -> Contribution:
    return Contribution(source, Precedence.CRD, offers)


def one_group(group: str, *resources: Resource, priority: int = 1000) -> Contribution:
    """Return a contribution of one group, whose source has the group's name."""
    return contribution(f"source of {group}", offer(group, *resources, priority=priority))


CORE = one_group("", resource("pods"), priority=18000)
APPS = one_group("apps", resource("deployments"), priority=17800)
EXAMPLES = tuple(one_group(f"{letter}.example.com") for letter in "abcde")


def replace_all(registry: Registry, contributions: list[Contribution]) -> None:
    """Replace all contributions of a registry."""
    registry.withdraw(*({*registry.sources} - {c.source for c in contributions}))
    registry.publish(*contributions)


_GROUPS = ("", "apps", "a.example.com", "b.example.com", "c.example.com", "d.example.com")
_PRIORITIES = (1, 1000, 17800)


@st.composite
def _offers(draw: st.DrawFn) -> Offer:
    return Offer(
        draw(st.sampled_from(_GROUPS)),
        Version(
            draw(st.sampled_from(("v1", "v1beta1", "v2"))),
            (resource(draw(st.sampled_from(("jobs", "tasks")))),),
        ),
        draw(st.sampled_from(_PRIORITIES)),
        draw(st.sampled_from((1, 15))),
        draw(st.sampled_from((0, 1, LAST_RANK))),
    )


def _group_version(offered: Offer) -> tuple[str, str]:
    return offered.group, offered.version.version


@st.composite
def _of_source(draw: st.DrawFn, source: str) -> Contribution:
    offers = draw(st.lists(_offers(), max_size=6, unique_by=_group_version))
    return Contribution(source, draw(st.sampled_from(Precedence)), tuple(offers))


@st.composite
def _contributions(draw: st.DrawFn) -> list[Contribution]:
    sources = draw(st.lists(st.sampled_from(("first", "second", "third")), unique=True))
    return [draw(_of_source(source)) for source in sources]


contribution_sets = _contributions()


@st.composite
def _reordered(
    draw: st.DrawFn, contributions: list[Contribution]
) -> tuple[list[Contribution], list[Contribution]]:
    """Draw other priorities for the same content, which only change the order."""
    after = [
        replace(
            before,
            offers=tuple(
                replace(o, group_priority=draw(st.sampled_from(_PRIORITIES))) for o in before.offers
            ),
        )
        for before in contributions
    ]
    return contributions, after


# Before and after. In some only the order of the groups changes.
transitions: st.SearchStrategy[tuple[list[Contribution], list[Contribution]]] = st.one_of(
    st.tuples(contribution_sets, contribution_sets),
    contribution_sets.flatmap(_reordered),
)


def random_step(registry: Registry, rng: random.Random) -> None:
    """Publish, replace, move or withdraw one of a few groups."""
    group = rng.choice(_GROUPS)
    if rng.random() < 0.3:
        registry.withdraw(f"source of {group}")
    else:
        names = rng.sample(("jobs", "tasks", "runs", "plans"), rng.randint(1, 3))
        registry.publish(one_group(group, *map(resource, names), priority=rng.choice(_PRIORITIES)))


def large(total_bytes: int, groups: int = 100, resources: int = 200) -> Contribution:
    """Return groups whose document is larger than this."""
    size = total_bytes // groups // resources
    return contribution(
        "large",
        *(
            offer(
                f"g{g:04}.example.com",
                *(resource(f"r{r:03}", f"{g}-{r}".ljust(size, "x")) for r in range(resources)),
            )
            for g in range(groups)
        ),
    )
