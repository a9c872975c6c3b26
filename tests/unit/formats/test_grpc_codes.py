import grpc
from apidiscovery_formats.grpc_codes import HTTP_STATUSES


def test_every_code_has_an_http_status() -> None:
    assert HTTP_STATUSES.keys() == {code.name for code in grpc.StatusCode}
