"""Outcomes that are a `Status` with details: failures of requests about objects, and deletions."""

from dataclasses import replace
from http import HTTPStatus

from apidiscovery.meta.v1 import status_pb2

from apidiscovery_service.encoding.plain import PlainDocument
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects.errors import Cause, Details, ObjectError
from apidiscovery_service.kube.wire import list_meta
from apidiscovery_service.serving.http.messages import Request, Response
from apidiscovery_service.serving.http.statuses import negotiated_status

_NO_SNIFF = (b"x-content-type-options", b"nosniff")


def failure(error: ObjectError) -> PlainDocument:
    """Return the Status of a failed request."""
    return _status(
        error.message, error.reason, error.details, int(error.code), error.continue_token
    )


def success(details: Details) -> PlainDocument:
    """Return the Status of a deletion; it has no code."""
    return _status("", "", details)


def answer(request: Request, error: ObjectError) -> Response:
    """Answer with the Status of an error, in the form that the client accepts."""
    response = negotiated_status(request, failure(error))
    headers = response.headers
    if error.code == HTTPStatus.FORBIDDEN:
        headers = [*headers, _NO_SNIFF]
    if error.details and error.details.retry_after_s:
        headers = [*headers, (b"retry-after", b"%d" % error.details.retry_after_s)]
    return replace(response, headers=headers)


def _status(
    message: str, reason: str, details: Details | None, code: int = 0, continue_token: str = ""
) -> PlainDocument:
    status = "Failure" if code else "Success"
    metadata: dict[str, JSONValue] = {"continue": continue_token} if continue_token else {}
    fields: dict[str, JSONValue] = {"metadata": metadata, "status": status}
    if message:
        fields["message"] = message
    if reason:
        fields["reason"] = reason
    if details is not None:
        fields["details"] = _details(details)
    if code:
        fields["code"] = code

    def to_message() -> status_pb2.Status:
        list_metadata = list_meta()
        # The field is called `continue`, which Python cannot write as an attribute.
        setattr(list_metadata, "continue", continue_token)
        return status_pb2.Status(
            metadata=list_metadata,
            status=status,
            message=message,
            reason=reason,
            details=None if details is None else _details_message(details),
            code=code,
        )

    return PlainDocument("Status", "v1", fields, to_message)


def _details(details: Details) -> dict[str, JSONValue]:
    causes: list[JSONValue] = [_cause(cause) for cause in details.causes]
    fields: dict[str, JSONValue] = {
        "name": details.name,
        "group": details.group,
        "kind": details.kind,
        "uid": details.uid,
        "causes": causes,
        "retryAfterSeconds": details.retry_after_s,
    }
    return {name: value for name, value in fields.items() if value}


def _cause(cause: Cause) -> dict[str, JSONValue]:
    fields = {"reason": cause.reason, "message": cause.message, "field": cause.field}
    return {name: value for name, value in fields.items() if value}


def _details_message(details: Details) -> status_pb2.StatusDetails:
    return status_pb2.StatusDetails(
        name=details.name,
        group=details.group,
        kind=details.kind,
        uid=details.uid,
        causes=[
            status_pb2.StatusCause(reason=each.reason, message=each.message, field=each.field)
            for each in details.causes
        ],
        retry_after_seconds=details.retry_after_s,
    )
