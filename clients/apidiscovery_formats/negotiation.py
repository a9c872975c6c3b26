"""Content negotiation: from an Accept header to the representation that answers it, or 406.

This is kube-apiserver's algorithm and not RFC 9110: no quoting, `q=0` excludes nothing, and a
clause that names an aggregated document beats every plain one whatever its weight. Sources:
munnerz/goautoneg autoneg.go:ParseAccept; k8s.io/apiserver
pkg/endpoints/handlers/negotiation/negotiate.go:NegotiateMediaTypeOptions and
pkg/endpoints/discovery/aggregated/negotiation.go:IsAggregatedDiscoveryGVK.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cmp_to_key
from struct import Struct

from apidiscovery_formats import media_types
from apidiscovery_formats.media_types import AGGREGATED_GROUP, AGGREGATED_KIND

_FLOAT32 = Struct("f")

# Go sorts up to this many clauses by insertion; the comparison is not a strict weak order, so
# the result depends on the algorithm.
_GO_INSERTION_SORT_MAX = 12


@dataclass(frozen=True, slots=True)
class Serializer:
    """A format of documents.

    Attributes:
        media_type: Without parameters.
        streams: Whether it supports `stream=watch`.
    """

    media_type: str
    streams: bool


JSON = Serializer(media_types.JSON, streams=True)
YAML = Serializer(media_types.YAML, streams=False)
PROTOBUF = Serializer(media_types.PROTOBUF, streams=True)

# In the order of k8s.io/apimachinery pkg/runtime/serializer/codec_factory.go, which also
# decides the meaning of wildcards.
SERIALIZERS = (JSON, YAML, PROTOBUF)
MEDIA_TYPES = tuple(serializer.media_type for serializer in SERIALIZERS)


@dataclass(frozen=True, slots=True)
class Representation:
    """The form of an answer.

    Attributes:
        serializer: The format of the body.
        aggregated: Version of the aggregated document (`v2`, `v2beta1`); None for a plain one.
        pretty: Whether JSON is indented because the clause says so (`pretty=1`).
        profile: The clause's `profile`, such as `nopeer`; it selects content, never the form.
    """

    serializer: Serializer
    aggregated: str | None = None
    pretty: bool = False
    profile: str = ""

    @property
    def is_compact_json(self) -> bool:
        return self.serializer is JSON and not self.pretty

    @property
    def content_type(self) -> str:
        """The value of Content-Type."""
        if self.aggregated is None:
            return self.serializer.media_type
        return media_types.aggregated(self.serializer.media_type, self.aggregated)


@dataclass(frozen=True, slots=True)
class Clause:
    """One media range of an Accept header, with its weight and its parameters."""

    type: str
    subtype: str
    weight: float = 1.0
    parameters: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def converts(self) -> bool:
        """Whether the clause names another kind of document, also incompletely."""
        return any(name in self.parameters for name in ("g", "v", "as"))

    def aggregated_version(self) -> str | None:
        """Return the version of the aggregated document in the clause, None for none."""
        names = self.parameters
        if names.get("g") == AGGREGATED_GROUP and names.get("as") == AGGREGATED_KIND:
            return names.get("v")
        return None

    def matches(self, serializer: Serializer) -> bool:
        """Return whether the range and the parameters `stream` and `sv` allow a serializer."""
        main, _, _ = serializer.media_type.partition("/")
        media_range = f"{self.type}/{self.subtype}"
        if media_range not in (serializer.media_type, f"{main}/*", "*/*"):
            return False
        stream = self.parameters.get("stream")
        if stream and (stream != "watch" or not serializer.streams):
            return False
        return not self.parameters.get("sv")


def _weight(text: str) -> float:
    """Return `q` as Go's ParseFloat reads it, to 32 bits; 0 for an error."""
    if text != text.strip() or "_" in text:
        return 0.0
    try:
        weight: float = _FLOAT32.unpack(_FLOAT32.pack(float(text)))[0]
    except (ValueError, OverflowError):
        return 0.0
    return weight if weight == weight else 0.0  # noqa: PLR0124 - NaN is not equal to itself


def _clause(part: str) -> Clause | None:
    media_range, _, rest = part.strip(" ").partition(";")
    main, slash, sub = media_range.partition("/")
    main, sub = main.strip(" "), sub if slash else ""
    if not sub:
        if main != "*":
            return None
        sub = "*"
    sub, _, extra = sub.partition("/")
    if extra:
        return None
    weight, parameters = 1.0, dict[str, str]()
    for piece in rest.split(";") if rest else ():
        name, _, value = piece.partition("=")
        if not value or "=" in value:
            continue
        if name.strip(" ") == "q":
            weight = _weight(value)
        else:
            parameters[name.strip(" ")] = value.strip(" ")
    return Clause(main, sub.strip(" "), weight, parameters)


def _less(a: Clause, b: Clause) -> bool:
    return (
        a.weight > b.weight
        or (a.type != "*" and b.type == "*")
        or (a.subtype != "*" and b.subtype == "*")
    )


def _compare(a: Clause, b: Clause) -> int:
    return _less(b, a) - _less(a, b)


def _go_sorted(clauses: list[Clause]) -> list[Clause]:
    if len(clauses) > _GO_INSERTION_SORT_MAX:
        # Go's pattern-defeating quicksort has no defined result for such a comparison; a
        # stable sort is as good, and bounds the cost of a hostile header to n log n.
        return sorted(clauses, key=cmp_to_key(_compare))
    for i in range(1, len(clauses)):
        j = i
        while j > 0 and _less(clauses[j], clauses[j - 1]):
            clauses[j], clauses[j - 1] = clauses[j - 1], clauses[j]
            j -= 1
    return clauses


def parse_accept(header: str) -> list[Clause]:
    """Return the clauses of an Accept header in order of preference."""
    clauses = (_clause(part) for part in header.split(","))
    return _go_sorted([clause for clause in clauses if clause is not None])


def matches(clauses: Iterable[Clause]) -> Iterator[tuple[Clause, Serializer]]:
    """Yield each clause with each serializer that it allows, in order of preference."""
    return (
        (clause, serializer)
        for clause in clauses
        for serializer in SERIALIZERS
        if clause.matches(serializer)
    )


def _representation(clause: Clause, serializer: Serializer) -> Representation:
    return Representation(
        serializer,
        pretty=clause.parameters.get("pretty") == "1",
        profile=clause.parameters.get("profile", ""),
    )


def negotiate(accept: str, aggregated: Sequence[str] = ()) -> Representation | None:
    """Choose the representation that answers an Accept header.

    Args:
        accept: The first Accept header line; empty when there is none.
        aggregated: Versions of the aggregated document that can be served, in any order; the
            header chooses between them.

    Returns:
        An aggregated representation if any clause allows one, else a plain one; None (406) if
        nothing that can be served is acceptable.
    """
    if not accept:
        return Representation(JSON)
    clauses = parse_accept(accept)
    for clause, serializer in matches(clauses):
        version = clause.aggregated_version()
        if version in aggregated:
            return replace(_representation(clause, serializer), aggregated=version)
    plain = (_representation(*match) for match in matches(clauses) if not match[0].converts)
    return next(plain, None)


def not_acceptable_message(served: Sequence[str] = MEDIA_TYPES) -> str:
    """Return kube-apiserver's message of a 406.

    Source: k8s.io/apiserver pkg/endpoints/handlers/negotiation/errors.go `errNotAcceptable`.
    """
    return f"only the following media types are accepted: {', '.join(served)}"


def route_accepts(accept: str, produced: Sequence[str] = MEDIA_TYPES) -> bool:
    """Return whether go-restful routes a request to a route that produces these media types.

    It precedes `negotiate` on `/api`, `/api/v1`, `/apis/{group}/{version}` and `/version`, and is
    simpler: a clause ends at its first `;` and must equal a media type or `*/*`, so that
    `application/*` is refused. Source: emicklei/go-restful route.go:matchesAccept.
    """
    ranges = [part.partition(";")[0].strip() for part in (accept or "*/*").split(",")]
    return any(media_range == "*/*" or media_range in produced for media_range in ranges)
