"""Errors of requests about objects, as k8s.io/apimachinery pkg/api/errors/errors.go has them."""

from http import HTTPStatus

import pytest
from apidiscovery_service.kube.objects import errors, field_errors
from apidiscovery_service.kube.objects.errors import Cause, Details, ObjectError
from apidiscovery_service.kube.objects.kinds import STORAGE_VERSION

GROUP = "internal.apiserver.k8s.io"
RESOURCE = f"storageversions.{GROUP}"


@pytest.mark.parametrize(
    ("error", "code", "reason", "message", "details"),
    [
        pytest.param(
            errors.name_not_generated(STORAGE_VERSION, "apps.x"),
            HTTPStatus.CONFLICT,
            "AlreadyExists",
            f'{RESOURCE} "apps.x" already exists, '
            "the server was not able to generate a unique name for the object",
            Details("apps.x", GROUP, "storageversions", retry_after_s=1),
            id="name not generated",
        ),
        pytest.param(
            errors.forbidden(STORAGE_VERSION, "", "no"),
            HTTPStatus.FORBIDDEN,
            "Forbidden",
            f"{RESOURCE} is forbidden: no",
            Details("", GROUP, "storageversions"),
            id="forbidden",
        ),
        pytest.param(
            errors.not_acceptable(["a/b", "c/d"]),
            HTTPStatus.NOT_ACCEPTABLE,
            "NotAcceptable",
            "only the following media types are accepted: a/b, c/d",
            None,
            id="not acceptable",
        ),
        pytest.param(errors.gone("it is"), HTTPStatus.GONE, "Gone", "it is", None, id="gone"),
        pytest.param(
            errors.timeout("request did not complete", 0),
            HTTPStatus.GATEWAY_TIMEOUT,
            "Timeout",
            "Timeout: request did not complete",
            Details(),
            id="timeout",
        ),
        pytest.param(
            errors.internal_error("oh"),
            HTTPStatus.INTERNAL_SERVER_ERROR,
            "InternalError",
            "Internal error occurred: oh",
            Details(causes=(Cause("", "oh", ""),)),
            id="internal error",
        ),
    ],
)
def test_code_reason_message_and_details_are_kubernetes(
    error: ObjectError, code: HTTPStatus, reason: str, message: str, details: Details | None
) -> None:
    assert (error.code, error.reason, error.message, error.details) == (
        code,
        reason,
        message,
        details,
    )
    assert str(error) == message


NAME = field_errors.invalid("metadata.name", "x", "no")
LABEL = field_errors.required("metadata.uid", "")


@pytest.mark.parametrize(
    ("causes", "rest"),
    [
        pytest.param([], "", id="none"),
        pytest.param([NAME], ': metadata.name: Invalid value: "x": no', id="one"),
        pytest.param(
            [NAME, LABEL],
            ': [metadata.name: Invalid value: "x": no, metadata.uid: Required value]',
            id="two",
        ),
        pytest.param([NAME, NAME], ': metadata.name: Invalid value: "x": no', id="twice the same"),
    ],
)
def test_causes_of_an_invalid_object_are_one_message(causes: list[Cause], rest: str) -> None:
    error = errors.invalid(STORAGE_VERSION, "a.b", causes)
    assert error.message == f'StorageVersion.{GROUP} "a.b" is invalid{rest}'
    assert error.details == Details("a.b", GROUP, "StorageVersion", causes=tuple(causes))


def test_invalid_options_are_of_the_meta_group() -> None:
    error = errors.invalid_options("DeleteOptions", [NAME])
    assert error.message.startswith('DeleteOptions.meta.k8s.io "" is invalid: metadata.name')


def test_an_invalid_patch_names_no_kind() -> None:
    error = errors.invalid_patch(field_errors.invalid("patch", "{}", "bad"))
    assert error.message == ' "" is invalid: patch: Invalid value: "{}": bad'


@pytest.mark.parametrize(
    ("cause", "reason", "message"),
    [
        pytest.param(
            field_errors.invalid("f", 'a"b\n', "d"),
            "FieldValueInvalid",
            'Invalid value: "a\\"b\\n": d',
            id="a string is quoted as in Go",
        ),
        pytest.param(
            field_errors.invalid("f", ["a", "<"], "d"),
            "FieldValueInvalid",
            'Invalid value: ["a","\\u003c"]: d',
            id="a list is JSON",
        ),
        pytest.param(
            field_errors.invalid("f", None, "d"), "FieldValueInvalid", "Invalid value: null: d"
        ),
        pytest.param(
            field_errors.forbidden("f", "d"), "FieldValueForbidden", "Forbidden: d", id="forbidden"
        ),
        pytest.param(
            field_errors.too_long("f", 7),
            "FieldValueTooLong",
            "Too long: may not be more than 7 bytes",
            id="too long",
        ),
        pytest.param(
            field_errors.not_supported("f", "x", ["a", "b"]),
            "FieldValueNotSupported",
            'Unsupported value: "x": supported values: "a", "b"',
            id="not supported",
        ),
    ],
)
def test_a_cause_shows_the_value_that_was_seen(cause: Cause, reason: str, message: str) -> None:
    assert cause == Cause(reason, message, "f")


def test_causes_and_messages_are_bounded() -> None:
    causes = [field_errors.invalid(f"a[{n}]", "x" * 100_000, "no") for n in range(200)]
    error = errors.invalid(STORAGE_VERSION, "y" * 1_000_000, causes)

    assert error.details is not None
    assert [cause.field for cause in error.details.causes] == [f"a[{n}]" for n in range(100)]
    assert len(error.message) < 2_000_000
    assert len(errors.bad_request("z" * 1_000_000).message) < 20_000
