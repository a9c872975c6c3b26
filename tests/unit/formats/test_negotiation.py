"""Negotiation: kube-apiserver's choices, row by row, and what holds for any Accept header."""

import math
import time

import pytest
from apidiscovery_formats.negotiation import (
    JSON,
    MEDIA_TYPES,
    PROTOBUF,
    SERIALIZERS,
    YAML,
    Representation,
    Serializer,
    negotiate,
    not_acceptable_message,
    parse_accept,
    route_accepts,
)
from hypothesis import given
from hypothesis import strategies as st

PARAMETERS = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
BETA_PARAMETERS = PARAMETERS.replace("v=v2", "v=v2beta1")
AGG = f"application/json;{PARAMETERS}"
BETA = f"application/json;{BETA_PARAMETERS}"
V3 = AGG.replace("v=v2", "v=v3")
PROTOBUF_TYPE = "application/vnd.kubernetes.protobuf"
BROWSER = "text/html,application/xhtml+xml,*/*;q=0.8"

V2 = ("v2",)
BOTH = ("v2", "v2beta1")

PLAIN_JSON = Representation(JSON)
AGGREGATED_JSON = Representation(JSON, "v2")
REFUSED = None


# --------------------------------------------------------------------------------------------------
# What kube-apiserver answers to real and to odd headers.

EXAMPLES = [
    pytest.param("", PLAIN_JSON, id="absent"),
    pytest.param("*/*", PLAIN_JSON, id="anything"),
    pytest.param("application/json", PLAIN_JSON, id="plain"),
    pytest.param(AGG, AGGREGATED_JSON, id="aggregated"),
    pytest.param(
        "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io",
        AGGREGATED_JSON,
        id="parameters-in-any-order",
    ),
    pytest.param(f"{AGG},application/json", AGGREGATED_JSON, id="aggregated-then-plain"),
    pytest.param(f"{AGG},{BETA},application/json", AGGREGATED_JSON, id="old-client-go"),
    pytest.param(BETA, REFUSED, id="beta-alone"),
    pytest.param(f"{BETA},application/json", PLAIN_JSON, id="beta-or-plain"),
    pytest.param(V3, REFUSED, id="v3-alone"),
    pytest.param(f"{V3},application/json", PLAIN_JSON, id="v3-or-plain"),
    pytest.param("application/json;g=apidiscovery.k8s.io;v=v2", REFUSED, id="no-as"),
    pytest.param(f"{PROTOBUF_TYPE};{PARAMETERS}", Representation(PROTOBUF, "v2"), id="protobuf"),
    pytest.param(PROTOBUF_TYPE, Representation(PROTOBUF), id="plain-protobuf"),
    pytest.param(f"application/yaml;{PARAMETERS}", Representation(YAML, "v2"), id="yaml"),
    pytest.param(f"*/*;{PARAMETERS}", AGGREGATED_JSON, id="anything-aggregated"),
    pytest.param(f"application/*;{PARAMETERS}", AGGREGATED_JSON, id="any-application-aggregated"),
    pytest.param(f"application/cbor;{PARAMETERS}", REFUSED, id="cbor"),
    pytest.param(BROWSER, PLAIN_JSON, id="browser"),
    pytest.param(
        f"{AGG};profile=nopeer", Representation(JSON, "v2", profile="nopeer"), id="nopeer"
    ),
    pytest.param(f"{AGG};charset=utf-8", AGGREGATED_JSON, id="charset"),
    pytest.param(f"{AGG};sv=v1", REFUSED, id="server-version"),
    pytest.param(
        "application/json;G=apidiscovery.k8s.io;V=v2;AS=APIGroupDiscoveryList",
        PLAIN_JSON,
        id="capital-names-are-unknown",
    ),
    pytest.param(
        'application/json;g="apidiscovery.k8s.io";v="v2";as="APIGroupDiscoveryList"',
        REFUSED,
        id="quotes-are-part-of-the-value",
    ),
    pytest.param("application/json;q=0", PLAIN_JSON, id="q-0-excludes-nothing"),
    pytest.param(",", REFUSED, id="comma"),
    pytest.param("garbage", REFUSED, id="garbage"),
]

# The parameters and the precedence of aggregated over plain.
CHOICES = [
    pytest.param(f"application/json, {AGG};q=0.1", AGGREGATED_JSON, id="aggregated-beats-plain"),
    pytest.param(f"*/*, application/yaml;q=0.1;{PARAMETERS}", Representation(YAML, "v2"), id="q"),
    pytest.param(f"{AGG};stream=watch", AGGREGATED_JSON, id="stream-watch-json"),
    pytest.param(f"{AGG};stream=other", REFUSED, id="stream-other"),
    pytest.param("application/yaml;stream=watch", REFUSED, id="yaml-does-not-stream"),
    pytest.param("application/*;stream=watch", PLAIN_JSON, id="stream-any"),
    pytest.param(f"{AGG};export=1", AGGREGATED_JSON, id="export"),
    pytest.param(f"{AGG};pretty=1", Representation(JSON, "v2", pretty=True), id="pretty-1"),
    pytest.param(f"{AGG};pretty=true", AGGREGATED_JSON, id="pretty-true"),
    pytest.param("application/json;pretty=1", Representation(JSON, pretty=True), id="plain-pretty"),
    pytest.param(f"{AGG};foo=bar", AGGREGATED_JSON, id="unknown-parameter"),
    pytest.param("application/json;sv=v1,*/*", PLAIN_JSON, id="next-clause-after-sv"),
    pytest.param("application/json;g=,*/*;q=0", PLAIN_JSON, id="empty-g-is-no-g"),
    pytest.param("application/json;as=Table;g=meta.k8s.io;v=v1", REFUSED, id="another-conversion"),
    pytest.param(
        "application/json;as=Table;g=meta.k8s.io;v=v1,application/json", PLAIN_JSON, id="or-plain"
    ),
    pytest.param("application/yaml,application/json", Representation(YAML), id="first-of-equals"),
    pytest.param(f"application/yaml;q=0.9,{PROTOBUF_TYPE}", Representation(PROTOBUF), id="heavier"),
    pytest.param("*/*,application/yaml;q=0.1", Representation(YAML), id="concrete-before-any"),
    pytest.param("application/*,application/yaml;q=0.1", Representation(YAML), id="before-subtype"),
    pytest.param("*/json", REFUSED, id="any-type-wants-any-subtype"),
    pytest.param("Application/JSON", REFUSED, id="case-sensitive"),
]

# How a header is taken apart, by rule of goautoneg `ParseAccept`.
PARSING = [
    pytest.param(" application/yaml ", Representation(YAML), id="3-spaces-are-stripped"),
    pytest.param("\tapplication/json", REFUSED, id="3-tabs-are-kept"),
    pytest.param("application/json\t", REFUSED, id="3-tabs-at-the-end-are-kept"),
    pytest.param('application/yaml;a="b,application/json"', Representation(YAML), id="3-no-quotes"),
    pytest.param("application/yaml;;;q=1", Representation(YAML), id="4-empty-parameters"),
    pytest.param("*", PLAIN_JSON, id="5-star"),
    pytest.param("*/", PLAIN_JSON, id="5-star-slash"),
    pytest.param("application", REFUSED, id="5-no-slash"),
    pytest.param("application/", REFUSED, id="5-nothing-after-the-slash"),
    pytest.param("application/json/x", REFUSED, id="5-second-slash"),
    pytest.param("application/json/", PLAIN_JSON, id="5-second-slash-with-nothing-after-it"),
    pytest.param("application / json", PLAIN_JSON, id="5-spaces-around-the-slash"),
    pytest.param("application/json;g;v=", PLAIN_JSON, id="6-without-a-value"),
    pytest.param("application/json;g=a=b", PLAIN_JSON, id="6-two-equals-signs"),
    pytest.param(AGG.replace("=", " = "), AGGREGATED_JSON, id="6-names-and-values-are-trimmed"),
    pytest.param("application/json;sv= ", PLAIN_JSON, id="6-value-of-spaces"),
    pytest.param("application/json;q=0.5,application/yaml;q=0.6", Representation(YAML), id="7-q"),
    pytest.param(
        "application/json;q= 1,application/yaml;q=0.1", Representation(YAML), id="7-not-trimmed"
    ),
    pytest.param("application/json;q=x,application/yaml;q=0.1", Representation(YAML), id="7-bad"),
    pytest.param(
        "application/json;q=1_0,application/yaml;q=0.1", Representation(YAML), id="7-underscore"
    ),
    pytest.param(
        "application/json;q=0.5,application/yaml;q=0.50000000001", PLAIN_JSON, id="7-as-a-float32"
    ),
    pytest.param(
        "application/json;q=-1,application/yaml;q=-0.5", Representation(YAML), id="7-negative"
    ),
    pytest.param(
        "application/json;Q=0,application/yaml", PLAIN_JSON, id="7-capital-Q-is-no-weight"
    ),
    pytest.param("*/*,application/*,application/yaml;q=0", Representation(YAML), id="8-concrete"),
    pytest.param(
        f"application/yaml;q=0.2,*/*;q=0.9,{PROTOBUF_TYPE};q=0.5",
        Representation(PROTOBUF),
        id="8-insertion-sort-is-no-order",
    ),
]


@pytest.mark.parametrize(("accept", "wanted"), [*EXAMPLES, *CHOICES, *PARSING])
def test_an_accept_header_gets_this_at_apis(accept: str, wanted: Representation | None) -> None:
    assert negotiate(accept, V2) == wanted


@pytest.mark.parametrize(
    ("accept", "aggregated", "wanted"),
    [
        pytest.param(BETA, BOTH, Representation(JSON, "v2beta1"), id="beta"),
        pytest.param(f"{BETA},{AGG}", BOTH, Representation(JSON, "v2beta1"), id="header-decides"),
        pytest.param(f"{AGG},{BETA}", BOTH, AGGREGATED_JSON, id="header-decides-for-v2"),
        pytest.param(
            f"{PROTOBUF_TYPE};{BETA_PARAMETERS}", BOTH, Representation(PROTOBUF, "v2beta1"), id="pb"
        ),
        pytest.param(AGG, (), REFUSED, id="old-server"),
        pytest.param(f"{AGG},application/json", (), PLAIN_JSON, id="old-server-or-plain"),
    ],
)
def test_the_answer_depends_on_the_aggregated_versions_of_the_server(
    accept: str, aggregated: tuple[str, ...], wanted: Representation | None
) -> None:
    assert negotiate(accept, aggregated) == wanted


@pytest.mark.parametrize(
    ("representation", "content_type"),
    [
        pytest.param(PLAIN_JSON, "application/json", id="plain"),
        pytest.param(AGGREGATED_JSON, AGG, id="aggregated"),
        pytest.param(Representation(JSON, "v2beta1"), BETA, id="beta"),
        pytest.param(Representation(YAML, "v2"), f"application/yaml;{PARAMETERS}", id="yaml"),
        pytest.param(Representation(PROTOBUF, "v2"), f"{PROTOBUF_TYPE};{PARAMETERS}", id="pb"),
        pytest.param(
            Representation(JSON, "v2", pretty=True, profile="nopeer"), AGG, id="nothing-is-echoed"
        ),
    ],
)
def test_content_type_has_the_parameters_in_order_without_spaces(
    representation: Representation, content_type: str
) -> None:
    assert representation.content_type == content_type


def test_the_message_of_406_names_the_acceptable_types() -> None:
    assert not_acceptable_message() == (
        "only the following media types are accepted: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    )


# What go-restful lets through to a route.
ROUTES = [
    pytest.param("", True, id="absent"),
    pytest.param("*/*", True, id="anything"),
    pytest.param("application/json", True, id="json"),
    pytest.param("application/yaml;q=0.1", True, id="yaml-weighed"),
    pytest.param(AGG, True, id="aggregated"),
    pytest.param(f"*/*;{PARAMETERS}", True, id="anything-aggregated"),
    pytest.param("text/html, application/json", True, id="one-of-two"),
    pytest.param(BROWSER, True, id="browser"),
    pytest.param("application/*", False, id="any-application"),
    pytest.param("*", False, id="star"),
    pytest.param("text/html", False, id="html"),
    pytest.param("application/cbor", False, id="cbor"),
    pytest.param("application / json", False, id="spaces-inside"),
    pytest.param(",", False, id="comma"),
]


@pytest.mark.parametrize(("accept", "passes"), ROUTES)
def test_go_restful_lets_this_pass(accept: str, *, passes: bool) -> None:
    assert route_accepts(accept, MEDIA_TYPES) is passes


# --------------------------------------------------------------------------------------------------
# Any header.

PIECES = st.sampled_from(
    [
        *(
            "application/json",
            "application/yaml",
            PROTOBUF_TYPE,
            "application/*",
            "*/*",
            "*",
            "a/b",
        ),
        *("", " ", "text/html", "application/", "/json", "*/json", "a/b/c", "application/cbor"),
    ]
)
PARAMETER = st.sampled_from(
    [
        *(
            "g=apidiscovery.k8s.io",
            "v=v2",
            "v=v2beta1",
            "as=APIGroupDiscoveryList",
            "g=",
            "as=Table",
        ),
        *("q=0", "q=0.5", "q=1", "q=x", "q=nan", "q=inf", "q=-1", "stream=watch", "stream=x"),
        *("sv=1", "pretty=1", "profile=nopeer", "a=b=c", "=", " v = v2 ", PARAMETERS),
    ]
)
CLAUSES = st.tuples(PIECES, st.lists(PARAMETER, max_size=4)).map(
    lambda clause: ";".join([clause[0], *clause[1]])
)
GARBAGE = st.text(max_size=40) | st.text("*/,;=q. agv0", max_size=40)
HEADERS = st.lists(CLAUSES | GARBAGE, max_size=20).map(",".join)
OFFERED = st.sampled_from([(), V2, BOTH, ("v2beta1",)])


def parameters_of(clause: str) -> dict[str, str]:
    """Return the parameters by rule 6, the last of a name."""
    pieces = [piece.split("=") for piece in clause.split(";")[1:]]
    return {p[0].strip(" "): p[1].strip(" ") for p in pieces if len(p) == 2 and p[1]}


def covers(clause: str, serializer: Serializer) -> bool:
    """Tell whether a clause's range names the serializer, by rules 3 to 5."""
    media_range = clause.strip(" ").split(";")[0]
    if media_range.strip(" ") in ("*", "*/") or media_range.replace(" ", "") == "*/*":
        return True
    parts = [part.strip(" ") for part in media_range.split("/")]
    named = len(parts) == 2 or (len(parts) == 3 and not media_range.split("/")[2])
    return named and (parts[0], parts[1]) in (
        tuple(serializer.media_type.split("/")),
        ("application", "*"),
        ("*", "*"),
    )


def admits(clause: str, representation: Representation) -> bool:
    """Tell whether a client that sends this clause accepts the representation."""
    parameters = parameters_of(clause)
    asked = [parameters.get(name) for name in ("g", "v", "as")]
    if representation.aggregated is None:
        wanted = asked == [None] * 3
    else:
        wanted = asked == [
            "apidiscovery.k8s.io",
            representation.aggregated,
            "APIGroupDiscoveryList",
        ]
    stream = parameters.get("stream", "")
    streams = not stream or (stream == "watch" and representation.serializer is not YAML)
    unversioned = not parameters.get("sv")
    return wanted and streams and unversioned and covers(clause, representation.serializer)


@given(HEADERS, OFFERED)
def test_the_answer_is_what_a_clause_admits_and_aggregated_if_any_clause_does(
    accept: str, offered: tuple[str, ...]
) -> None:
    clauses = accept.split(",")
    aggregated = [Representation(s, version) for s in SERIALIZERS for version in offered]
    plain = [Representation(s) for s in SERIALIZERS]

    def acceptable(representations: list[Representation]) -> list[Representation]:
        return [r for r in representations if any(admits(clause, r) for clause in clauses)]

    made = negotiate(accept, offered)
    if not accept:
        assert made == PLAIN_JSON
    elif made is None:
        assert acceptable([*aggregated, *plain]) == []
    else:
        bare = Representation(made.serializer, made.aggregated)
        assert bare in (acceptable(aggregated) or acceptable(plain))
        assert made.pretty <= ("pretty" in accept)
        assert made.profile in ("", "nopeer") or made.profile in accept


@given(HEADERS)
def test_a_route_takes_the_headers_with_one_of_its_types_or_any(accept: str) -> None:
    types = {clause.split(";")[0].strip() for clause in accept.split(",")}
    assert route_accepts(accept, MEDIA_TYPES) is (not accept or bool(types & {"*/*", *MEDIA_TYPES}))


@given(st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]), min_size=1, max_size=30))
def test_concrete_ranges_are_tried_by_weight_and_then_as_they_stand(weights: list[float]) -> None:
    header = ",".join(f"t/{place};q={weight}" for place, weight in enumerate(weights))
    tried = [int(clause.subtype) for clause in parse_accept(header)]
    assert tried == sorted(range(len(weights)), key=lambda place: -weights[place])


@given(st.integers(13, 60), st.integers(0, 12))
def test_more_than_twelve_clauses_are_answered_like_twelve(many: int, few: int) -> None:
    tail = f"application/yaml;q=0.5,{AGG};q=0.1"
    assert negotiate(",".join(["text/html"] * few + [tail]), V2) == AGGREGATED_JSON
    assert negotiate(",".join(["text/html"] * many + [tail]), V2) == AGGREGATED_JSON
    assert negotiate(",".join(["text/html"] * many), V2) is REFUSED


@pytest.mark.parametrize(
    "part",
    [
        pytest.param("a/b,", id="many-clauses"),
        pytest.param("*/*;sv=1;q=0.1,a/b;q=0.2,", id="many-weights"),
        pytest.param("application/json;sv=1,", id="many-refused"),
        pytest.param(";a=b", id="many-parameters"),
        pytest.param("/", id="many-slashes"),
        pytest.param("=", id="many-equals-signs"),
        pytest.param("application/json;q=" + "9" * 500 + ",", id="long-weights"),
        pytest.param(" ", id="many-spaces"),
    ],
)
def test_a_hostile_header_of_64_kilobytes_is_answered_within_a_second(part: str) -> None:
    header = (part * 65536)[:65536]
    started = time.process_time()
    negotiate(header, BOTH)
    route_accepts(header, MEDIA_TYPES)
    assert time.process_time() - started < 5


def test_no_weight_is_without_order() -> None:
    clauses = parse_accept("a/a;q=nan,a/b;q=inf,a/c;q=1")
    assert not any(math.isnan(clause.weight) for clause in clauses)
