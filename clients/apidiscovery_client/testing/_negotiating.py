"""From an Accept header to what kube-apiserver answers it with.

It is the algorithm of Kubernetes and not that of RFC 9110: no quoting, `q=0` excludes nothing, and
a clause that names an aggregated document beats every plain one whatever its weight. Sources:
munnerz/goautoneg autoneg.go `ParseAccept`; k8s.io/apiserver
pkg/endpoints/handlers/negotiation/negotiate.go `NegotiateMediaTypeOptions` and
pkg/endpoints/discovery/aggregated/negotiation.go `IsAggregatedDiscoveryGVK`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cmp_to_key
from struct import Struct

from apidiscovery_client._negotiation import AGGREGATED_KIND, GROUP

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
# The order also decides what a wildcard means.
# Source: k8s.io/apimachinery pkg/runtime/serializer/codec_factory.go.
MEDIA_TYPES = (JSON, YAML, PROTOBUF)

_FLOAT32 = Struct("f")
_GO_SORTS_BY_INSERTION_UP_TO = 12


@dataclass(frozen=True, slots=True)
class Representation:
    """What a request is answered with.

    Attributes:
        media_type: One of `MEDIA_TYPES`.
        version: Of the aggregated document; empty for an unaggregated one.
        is_pretty: Whether the clause asks for indented JSON.
    """

    media_type: str
    version: str = ""
    is_pretty: bool = False

    @property
    def content_type(self) -> str:
        """Return the Content-Type; old versions of client-go compare it as a string."""
        if not self.version:
            return self.media_type
        return f"{self.media_type};g={GROUP};v={self.version};as={AGGREGATED_KIND}"


@dataclass(frozen=True, slots=True)
class _Clause:
    range: str
    weight: float
    parameters: dict[str, str]

    @property
    def specificity(self) -> tuple[bool, bool]:
        main, _, sub = self.range.partition("/")
        return (main != "*", sub != "*")

    @property
    def converts(self) -> bool:
        """Whether it asks for another kind of document, well or badly."""
        return any(name in self.parameters for name in ("g", "v", "as"))

    @property
    def version(self) -> str:
        """Return the version of the aggregated document that is asked for, if one is."""
        told = self.parameters
        is_aggregated = (told.get("g"), told.get("as")) == (GROUP, AGGREGATED_KIND)
        return told.get("v", "") if is_aggregated else ""

    def admits(self, media_type: str) -> bool:
        stream = self.parameters.get("stream")
        if self.parameters.get("sv") or (stream and (stream != "watch" or media_type == YAML)):
            return False
        return self.range in (media_type, "*/*", f"{media_type.partition('/')[0]}/*")


def negotiate(accept: str, versions: Sequence[str] = ()) -> Representation | None:
    """Return what answers an Accept header; None for 406.

    Args:
        accept: The first such line; empty when there is none.
        versions: Those of the aggregated document that can be had here.
    """
    if not accept:
        return Representation(JSON)
    pairs = list(_pairs(_clauses(accept)))
    for clause, representation in pairs:
        if clause.version in versions:
            return replace(representation, version=clause.version)
    return next((chosen for clause, chosen in pairs if not clause.converts), None)


def passes_go_restful(accept: str) -> bool:
    """Tell whether a request gets through to a route at all; all but `/apis` are behind that.

    A clause counts up to its first `;` and must be a media type or `*/*`.
    Source: emicklei/go-restful route.go `matchesAccept`.
    """
    ranges = [clause.partition(";")[0].strip() for clause in (accept or "*/*").split(",")]
    return any(told in ("*/*", *MEDIA_TYPES) for told in ranges)


def _pairs(clauses: Iterable[_Clause]) -> Iterator[tuple[_Clause, Representation]]:
    for clause in clauses:
        is_pretty = clause.parameters.get("pretty") == "1"
        for media_type in MEDIA_TYPES:
            if clause.admits(media_type):
                yield clause, Representation(media_type, is_pretty=is_pretty)


def _clauses(accept: str) -> list[_Clause]:
    """Return the clauses in the order in which they are tried.

    Go's order is no strict weak one, so that the algorithm decides: insertion, for up to twelve.
    """
    found = [clause for part in accept.split(",") if (clause := _clause(part))]
    if len(found) > _GO_SORTS_BY_INSERTION_UP_TO:
        return sorted(found, key=cmp_to_key(_compare))
    for end in range(1, len(found)):
        place = end
        while place and _less(found[place], found[place - 1]):
            found[place - 1 : place + 1] = found[place], found[place - 1]
            place -= 1
    return found


def _less(a: _Clause, b: _Clause) -> bool:
    (a_main, a_sub), (b_main, b_sub) = a.specificity, b.specificity
    return a.weight > b.weight or (a_main and not b_main) or (a_sub and not b_sub)


def _compare(a: _Clause, b: _Clause) -> int:
    return _less(b, a) - _less(a, b)


def _clause(part: str) -> _Clause | None:
    told, _, rest = part.strip(" ").partition(";")
    main, _, sub = told.partition("/")
    main = main.strip(" ")
    if not sub:
        if main != "*":
            return None
        sub = "*"
    sub, _, extra = sub.partition("/")
    if extra:
        return None
    pieces = [piece.partition("=") for piece in rest.split(";")]
    parameters = {
        name.strip(" "): value.strip(" ") for name, _, value in pieces if value and "=" not in value
    }
    weights = [_weight(value) for name, _, value in pieces if name.strip(" ") == "q" and value]
    parameters.pop("q", None)
    return _Clause(f"{main}/{sub.strip(' ')}", weights[-1] if weights else 1.0, parameters)


def _weight(text: str) -> float:
    """Return what Go's ParseFloat makes of it with 32 bits; nothing where that fails."""
    if text != text.strip() or "_" in text:
        return 0.0
    try:
        weight: float = _FLOAT32.unpack(_FLOAT32.pack(float(text)))[0]
    except (ValueError, OverflowError):
        return 0.0
    return 0.0 if weight != weight else weight  # noqa: PLR0124 - only NaN is not itself
