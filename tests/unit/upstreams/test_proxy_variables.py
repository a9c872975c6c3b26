"""Variables that name proxies, and hosts without one, are read as Go reads them."""

import pytest
from apidiscovery_kubeconfig.addresses import environment_proxy, is_excepted
from apidiscovery_kubeconfig.errors import ConfigurationError


@pytest.mark.parametrize(
    ("host", "exceptions", "expected"),
    [
        ("api.example.com", "", False),
        ("api.example.com", "*", True),
        ("api.example.com", "example.com", True),
        ("api.example.com", ".example.com", True),
        ("api.example.com", "*.example.com", True),
        ("example.com", "example.com", True),
        ("example.com", ".example.com", False),
        ("example.com", "*.example.com", False),
        ("notexample.com", "example.com", False),
        ("API.Example.com", "a.b, EXAMPLE.com ", True),
        ("api.example.com", "example.com:443", True),
        ("api.example.com", "example.com:6443", False),
        ("10.1.2.3", "10.0.0.0/8", True),
        ("11.1.2.3", "10.0.0.0/8", False),
        ("api.example.com", "10.0.0.0/8", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3", "10.1.2.3:80", False),
        ("10.1.2.3", "2.3", False),
        ("fd00::1", "fd00:0::1", True),
        ("fd00::1", "[fd00::1]:443", True),
        ("fd00::1", "fd00::/8", True),
    ],
)
def test_no_proxy_is_read_as_go_reads_it(host: str, exceptions: str, *, expected: bool) -> None:
    assert is_excepted(host, 443, exceptions) is expected


def test_the_variable_of_the_scheme_counts() -> None:
    proxies = {"HTTP_PROXY": "http://h:1", "https_proxy": "http://s:2", "ALL_PROXY": "http://a:3"}
    assert environment_proxy("https://a.example", proxies) == "http://s:2"
    assert environment_proxy("http://a.example", proxies) == "http://h:1"
    assert environment_proxy("http://a.example", proxies | {"REQUEST_METHOD": "GET"}) is None
    assert environment_proxy("http://localhost:1", proxies) is None
    assert environment_proxy("https://[::1]:1", proxies) is None
    assert environment_proxy("https://a.example", {"ALL_PROXY": "http://a:3"}) is None
    with pytest.raises(ConfigurationError, match=r"^HTTPS_PROXY: SOCKS"):
        environment_proxy("https://a.example", {"HTTPS_PROXY": "socks5://a:1"})
