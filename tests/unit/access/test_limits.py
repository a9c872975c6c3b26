"""Token buckets and counts of connections."""

import pytest
from apidiscovery_service.access.limits import Buckets, Counts, network
from hypothesis import given
from hypothesis import strategies as st


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_gives_its_burst_then_its_rate() -> None:
    clock = Clock()
    buckets = Buckets[str](10, 0.5, clock)
    assert [buckets.take("a") for _ in range(5)] == [0.0] * 5
    assert buckets.take("a") == pytest.approx(0.1)
    assert buckets.take("b") == 0.0
    clock.now += 0.1001
    assert buckets.take("a") == 0.0
    assert buckets.take("a") > 0


def test_a_refusal_takes_nothing() -> None:
    clock = Clock()
    buckets = Buckets[str](1, 1, clock)
    buckets.take("a")
    waits = [buckets.take("a") for _ in range(100)]
    assert waits == pytest.approx([1.0] * 100)


def test_no_rate_is_no_limit() -> None:
    buckets = Buckets[str](0, 1)
    assert {buckets.take("a") for _ in range(1000)} == {0.0}
    assert len(buckets) == 0


@given(
    st.lists(st.floats(0, 3), max_size=60),
    st.sampled_from([0.5, 1.0, 3.0, 100.0]),
    st.sampled_from([0.1, 1.0, 5.0]),
)
def test_never_more_than_burst_and_rate_allow(
    pauses: list[float], rate: float, burst_s: float
) -> None:
    clock = Clock()
    buckets = Buckets[str](rate, burst_s, clock)
    taken = 0
    for pause in pauses:
        clock.now += pause
        wait_s = buckets.take("a")
        taken += not wait_s
        most = max(1.0, rate * burst_s) + rate * (clock.now - 1000.0)
        assert taken <= most + 1e-3
        if wait_s:
            clock.now += wait_s
            assert buckets.take("a") == 0.0
            taken += 1


def test_new_keys_share_one_bucket_when_the_table_is_full() -> None:
    """Keys in the table keep their own."""
    clock = Clock()
    buckets = Buckets[int](1, 1, clock, max_keys=100)
    assert [buckets.take(key) for key in range(100)] == [0.0] * 100
    assert buckets.take(100) == 0.0
    assert [bool(buckets.take(key)) for key in range(101, 1000)] == [True] * 899
    assert buckets.take(5) > 0
    assert len(buckets) == 100
    clock.now += 2
    assert buckets.take(1000) == 0.0
    assert len(buckets) == 1


def test_a_key_is_counted_up_to_its_limit() -> None:
    counts = Counts[str](2)
    assert [counts.enter("a") for _ in range(3)] == [True, True, False]
    assert counts.enter("b")
    assert len(counts) == 3
    counts.leave("a")
    assert counts.enter("a")
    for key in ("a", "a", "b"):
        counts.leave(key)
    assert len(counts) == 0
    free = Counts[str](0)
    assert all(free.enter("a") for _ in range(100))


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_addresses_of_one_network_are_one(address: str, expected: str) -> None:
    assert network(address) == expected
