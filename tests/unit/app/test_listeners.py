"""What the listeners of a server share, and what servers do not."""

from apidiscovery_service.app.listeners import SecureServing
from apidiscovery_service.app.settings import Security
from apidiscovery_service.metrics import Metrics


def test_servers_in_one_process_do_not_share_the_limit_of_watches() -> None:
    one, other = (SecureServing(Security(), Metrics()).access for _ in range(2))
    while one.watches.enter("address 192.0.2.1"):
        pass
    assert other.watches.enter("address 192.0.2.1")
