"""The tables of k8s.io/apimachinery pkg/labels/selector_test.go and pkg/fields/selector_test.go."""

import pytest
from apidiscovery_service.kube.objects import formats, selectors
from apidiscovery_service.kube.objects.errors import ObjectError
from apidiscovery_service.kube.objects.selectors import (
    NAME,
    NAMESPACE,
    Operator,
    Requirement,
    parse_fields,
    parse_labels,
)
from hypothesis import given
from hypothesis import strategies as st

BINARY = "in, notin, =, ==, !=, gt, lt"
UNABLE = "unable to parse requirement: "
NO_INTEGER = "for 'Gt', 'Lt' operators, the value must be an integer"
(LABEL_KEY,) = formats.qualified_name("-x")
(LABEL_VALUE,) = formats.label_value("a||y")


def printed(one: Requirement) -> str:
    """Return a requirement as Kubernetes prints it."""
    values = ",".join(one.values)
    match one.operator:
        case Operator.EXISTS:
            return one.key
        case Operator.DOES_NOT_EXIST:
            return f"!{one.key}"
        case Operator.IN | Operator.NOT_IN:
            return f"{one.key} {one.operator} ({values})"
        case operator:
            return f"{one.key}{ {'gt': '>', 'lt': '<'}.get(operator, operator) }{values}"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x=a,y=b,z=c", "x=a,y=b,z=c"),
        ("", ""),
        ("x!=a,y=b", "x!=a,y=b"),
        ("x= ,z= ", "x=,z="),
        ("!x", "!x"),
        ("x>1,z<5", "x>1,z<5"),
        ("x=a,a=x", "a=x,x=a"),
        ("\rx", "x"),
        (
            "this-is-another-dns.domain.com/key-with-dash in (so,what)",
            "this-is-another-dns.domain.com/key-with-dash in (so,what)",
        ),
        (
            "0.1.2.domain/99 notin (10.10.100.1, tick.tack.clock)",
            "0.1.2.domain/99 notin (10.10.100.1,tick.tack.clock)",
        ),
        ("foo  in\t (abc)", "foo in (abc)"),
        ("x  notin\t\t(def,abc)", "x notin (abc,def)"),
        ("x in (abc,)", "x in (,abc)"),
        ("x in (abc,abc)", "x in (abc)"),
        ("x in ()", "x in ()"),
        ("x in (a,,a,,a,,a,,)", "x in (,a)"),
        (
            "x notin (abc,,def),bar,z in (),w",
            "bar,w,x notin (,abc,def),z in ()",
        ),
        ("x notin ( )", "x notin ()"),
        ("x notin (, a)", "x notin (,a)"),
        ("a ", "a"),
        ("a in (x,y,notin, z,in)", "a in (in,notin,x,y,z)"),
        ("notin=in", "notin=in"),
        ("x==a", "x==a"),
    ],
)
def test_a_label_selector_has_its_requirements_by_key(text: str, wanted: str) -> None:
    assert ",".join(map(printed, parse_labels(text).requirements)) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x=a||y=b", f'{UNABLE}values[0][x]: Invalid value: "a||y": {LABEL_VALUE}'),
        ("x==a==b", "found '==', expected: ',' or 'end of string'"),
        ("!x=a", "found '=', expected: ',' or 'end of string'"),
        ("x<a", f'{UNABLE}values[0]: Invalid value: "a": {NO_INTEGER}'),
        ("x>", f'{UNABLE}values[0]: Invalid value: "": {NO_INTEGER}'),
        (
            "x>9223372036854775808",
            f'{UNABLE}values[0]: Invalid value: "9223372036854775808": {NO_INTEGER}',
        ),
        ("x,,y", "found ',', expected: identifier after ','"),
        (",x,y", "found ',', expected: !, identifier, or 'end of string'"),
        ("x nott in (y)", f"{UNABLE}found 'nott', expected: {BINARY}"),
        ("a in (xyz),", "found '', expected: identifier after ','"),
        ("a in (xyz)b notin ()", "found 'b', expected: ',' or 'end of string'"),
        ("a in (xyz abc)", f"{UNABLE}found 'abc', expected: ',' or ')'"),
        ("a notin(", f"{UNABLE}found '', expected: ',', ')' or identifier"),
        ("a in x", f"{UNABLE}found 'x' expected: '('"),
        ("a in (x,=)", f"{UNABLE}found '=', expected: ',', or identifier"),
        ("a (", f"{UNABLE}found '(', expected: {BINARY}"),
        ("(", "found '(', expected: !, identifier, or 'end of string'"),
        ("a=(", f"{UNABLE}found '(', expected: identifier"),
        ("!", f"{UNABLE}found '', expected: identifier"),
        ("-x", f'{UNABLE}<nil>: Invalid value: "-x": {LABEL_KEY}'),
        (
            f"x={'a' * 64}",
            f'{UNABLE}values[0][x]: Invalid value: "{"a" * 64}": must be no more than 63 bytes',
        ),
    ],
)
def test_a_malformed_label_selector_is_a_bad_request(text: str, message: str) -> None:
    with pytest.raises(ObjectError) as caught:
        parse_labels(text)
    assert (caught.value.code, caught.value.message) == (400, message)


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        ("", {"x": "y"}, True),
        ("x=y,z=w", {"x": "y", "z": "w"}, True),
        ("x!=y,z!=w", {"x": "z", "z": "a"}, True),
        ("notin=in", {"notin": "in"}, True),
        ("x", {"x": "z"}, True),
        ("!x", {"y": "z"}, True),
        ("x>1", {"x": "2"}, True),
        ("x<1", {"x": "0"}, True),
        ("x=z", {}, False),
        ("x=", {}, False),
        ("x==y", {"x": "z"}, False),
        ("x=y,z=w", {"x": "w", "z": "w"}, False),
        ("x!=y,z!=w", {"x": "z", "z": "w"}, False),
        ("x", {"y": "z"}, False),
        ("!x", {"x": "z"}, False),
        ("x>1", {"x": "0"}, False),
        ("x>1", {}, False),
        ("x>1", {"x": "v2"}, False),
        ("x<1", {"x": "2"}, False),
        ("x>9223372036854775806", {"x": "9223372036854775807"}, True),
        ("x>1", {"x": "9223372036854775808"}, False),
        ("x<1", {"x": "-1"}, True),
        ("x in (foo),y notin (alpha)", {"x": "foo", "y": "baz"}, True),
        ("x in (foo),y in (alpha)", {"x": "foo", "y": "baz"}, False),
        ("x notin (),y", {"y": ""}, True),
        ("x notin (),!y", {"y": ""}, False),
        ("x in ()", {"y": "baz"}, False),
    ],
)
def test_a_label_selector_matches(selector: str, labels: dict[str, str], *, matches: bool) -> None:
    assert parse_labels(selector).matches(labels) is matches


@given(st.text(alphabet="xy1-,=!()<> \0in\u00e9not", max_size=30))
def test_any_text_is_a_label_selector_or_a_bad_request(text: str) -> None:
    try:
        parse_labels(text)
    except ObjectError as error:
        assert error.code == 400  # noqa: PT017 - both outcomes are right


@pytest.mark.parametrize(
    ("text", "requirements"),
    [
        ("", []),
        (f"{NAME}=a", [(NAME, "a", True)]),
        (f"{NAME}==a", [(NAME, "a", True)]),
        (f"{NAMESPACE}!=a,{NAME}=b,", [(NAME, "b", True), (NAMESPACE, "a", False)]),
        (rf"{NAME}=a||y\=b", [(NAME, "a||y=b", True)]),
        (rf"{NAME}=\\\,,{NAMESPACE}=", [(NAME, "\\,", True), (NAMESPACE, "", True)]),
    ],
)
def test_a_field_selector_has_its_requirements_in_order(
    text: str, requirements: list[tuple[str, str, bool]]
) -> None:
    found = parse_fields(text).requirements
    assert [(one.field, one.value, one.equal) for one in found] == requirements


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "invalid selector: 'x'; can't understand 'x'"),
        (f"{NAME}=a,b", f"invalid selector: '{NAME}=a,b'; can't understand 'b'"),
        ("x in (a,b)", "invalid selector: 'x in (a,b)'; can't understand 'b)'"),
        (f"{NAME}=a||y=b", "invalid field selector: unescaped character in value: 61"),
        (f"{NAME}=\\", "invalid field selector: invalid escape sequence: \\"),
        (f"{NAME}=\\\\\\", "invalid field selector: invalid escape sequence: \\"),
        (f"{NAME}=\\a", "invalid field selector: invalid escape sequence: \\a"),
        (
            "status.phase=x",
            (
                '"status.phase" is not a known field selector: only "metadata.name", '
                '"metadata.namespace"'
            ),
        ),
    ],
)
def test_a_malformed_field_selector_is_a_bad_request(text: str, message: str) -> None:
    with pytest.raises(ObjectError) as caught:
        parse_fields(text)
    assert (caught.value.code, caught.value.message) == (400, message)


@pytest.mark.parametrize(
    ("labels", "fields", "matches"),
    [
        pytest.param("", "", True, id="all"),
        pytest.param("app=web", f"{NAME}=apps.x,{NAMESPACE}=", True, id="both"),
        pytest.param("app=web", f"{NAME}!=apps.x", False, id="not the name"),
        pytest.param("app!=web", f"{NAME}=apps.x", False, id="not the label"),
        pytest.param("", f"{NAMESPACE}=kube-system", False, id="not in the namespace"),
    ],
)
def test_a_selection_looks_at_labels_and_names(labels: str, fields: str, *, matches: bool) -> None:
    selection = selectors.parse(labels, fields)
    assert selection.matches({"metadata": {"name": "apps.x", "labels": {"app": "web"}}}) is matches
    assert selection.is_everything is (not labels and not fields)


def test_a_selection_knows_the_only_name_there_can_be() -> None:
    assert selectors.parse(field_selector=f"{NAMESPACE}=x,{NAME}=a").name == "a"
    assert selectors.parse(field_selector=f"{NAME}!=a").name is None
