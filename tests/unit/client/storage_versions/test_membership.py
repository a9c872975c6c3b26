"""Everything that closes the gate of a membership, and everything that opens it."""

from dataclasses import dataclass, field, replace

import hypothesis.strategies as st
from apidiscovery_client.storage_versions import GroupVersionResource, StoredResource
from apidiscovery_client.storage_versions.membership import Membership, boot_clock
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

TRUSTED_S = 10.0
WIDGETS = StoredResource(
    group="example.dev",
    resource="widgets",
    encoding_version="example.dev/v1",
    decodable_versions=("example.dev/v1", "example.dev/v2"),
    equivalents=(GroupVersionResource("old.dev", "v1", "widgets"),),
)
WIDGETS_V2 = replace(WIDGETS, encoding_version="example.dev/v2")
GADGETS = replace(WIDGETS, resource="gadgets", equivalents=())


@dataclass
class Setup:
    """A membership and its clock."""

    now: float = 100.0
    membership: Membership = field(init=False)

    def __post_init__(self) -> None:
        self.membership = Membership([WIDGETS, GADGETS], TRUSTED_S, lambda: self.now)

    @property
    def is_open(self) -> bool:
        return self.membership.gate().confirmed

    def pending(self) -> set[str]:
        return {str(name) for name in self.membership.gate().pending}

    def beat(self, lease: str = "a", *, joined: bool = False) -> bool:
        return self.membership.beat(self.now, lease, joined=joined)

    def report(self) -> bool:
        return self.membership.confirm(self.membership.begin_report())

    def opened(self) -> "Setup":
        assert self.beat(joined=True)
        assert self.report()
        assert self.is_open
        return self


def test_at_first_everything_is_pending_also_by_its_other_names() -> None:
    setup = Setup()
    assert setup.pending() == {"widgets.example.dev", "widgets.old.dev", "gadgets.example.dev"}
    assert not setup.is_open
    assert not setup.membership.is_member


def test_a_lease_that_an_earlier_life_left_opens_nothing() -> None:
    setup = Setup()
    assert setup.beat(joined=False)
    assert not setup.is_open


def test_a_heartbeat_of_the_same_lease_changes_nothing() -> None:
    setup = Setup().opened()
    assert not setup.beat()
    assert setup.is_open


def test_without_heartbeats_it_closes_when_the_lease_may_be_over_and_not_before() -> None:
    setup = Setup().opened()
    setup.now += TRUSTED_S - 0.01
    setup.membership.beat_failed("UNAVAILABLE")
    assert setup.is_open
    assert 0 < (setup.membership.remaining_s() or 0) <= 0.011
    setup.now += 0.01
    assert not setup.is_open
    assert setup.membership.remaining_s() is None
    assert setup.pending() == {"widgets.example.dev", "widgets.old.dev", "gadgets.example.dev"}


def test_it_counts_from_the_sending_of_the_heartbeat() -> None:
    setup = Setup()
    sent_at = setup.now
    setup.now += TRUSTED_S - 1
    setup.membership.beat(sent_at, "a", joined=True)
    assert setup.report()
    setup.now += 1
    assert not setup.is_open


def test_after_a_lapse_a_heartbeat_alone_does_not_open() -> None:
    setup = Setup().opened()
    setup.now += TRUSTED_S
    assert setup.beat()  # the same lease, but the gate was closed
    assert not setup.is_open
    assert setup.report()
    assert setup.is_open


def test_a_report_of_the_membership_before_does_not_count() -> None:
    setup = Setup()
    setup.beat(joined=True)
    sent = setup.membership.begin_report()
    setup.beat("b", joined=True)
    assert not setup.membership.confirm(sent)
    assert not setup.is_open


def test_a_report_that_ends_after_the_lease_does_not_count() -> None:
    setup = Setup()
    setup.beat(joined=True)
    sent = setup.membership.begin_report()
    setup.now += TRUSTED_S
    assert not setup.membership.confirm(sent)


def test_another_encoding_version_closes_only_its_resource() -> None:
    setup = Setup().opened()
    setup.membership.update([WIDGETS_V2, GADGETS])
    assert setup.pending() == {"widgets.example.dev", "widgets.old.dev"}
    assert not setup.is_open
    assert setup.report()
    assert setup.is_open


def test_a_report_of_what_was_stored_before_does_not_open() -> None:
    setup = Setup().opened()
    sent = setup.membership.begin_report()
    setup.membership.update([WIDGETS_V2, GADGETS])
    assert setup.membership.confirm(sent)
    assert not setup.is_open


def test_going_back_opens_at_once_only_before_the_next_report() -> None:
    setup = Setup().opened()
    setup.membership.update([WIDGETS_V2, GADGETS])
    setup.membership.update([WIDGETS, GADGETS])
    assert setup.is_open
    setup.membership.update([WIDGETS_V2, GADGETS])
    setup.membership.begin_report()  # may still arrive
    setup.membership.update([WIDGETS, GADGETS])
    assert setup.pending() == {"widgets.example.dev", "widgets.old.dev"}


def test_other_decodable_versions_close_nothing() -> None:
    setup = Setup().opened()
    setup.membership.update([replace(WIDGETS, decodable_versions=("example.dev/v1",)), GADGETS])
    assert setup.is_open


def test_the_error_of_the_report_comes_first_and_success_clears_both() -> None:
    setup = Setup()
    assert setup.membership.gate().last_error is None
    setup.membership.beat_failed("no heart")
    assert setup.membership.gate().last_error == "no heart"
    setup.beat(joined=True)
    setup.membership.report_failed("no report")
    setup.membership.beat_failed("no heart")
    assert setup.membership.gate().last_error == "no report"
    setup.beat()
    assert setup.report()
    assert setup.membership.gate().last_error is None


def test_the_clock_never_goes_back() -> None:
    first = boot_clock()
    assert boot_clock() >= first


class Memberships(RuleBasedStateMachine):
    """The gate against a service that may lose members and answers at any moment.

    The service is the truth: whenever the gate is open, what it lets be written is recorded.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.membership = Membership([WIDGETS], TRUSTED_S, lambda: self.now)
        self.stored = WIDGETS
        self.lease = 0  # of the service; 0: none
        self.leases = 0
        self.renewed_at = 0.0
        self.recorded: str | None = None
        self.beats: list[tuple[float, str, bool]] = []

    @initialize()
    def begin(self) -> None:
        self.heartbeat_arrives()
        self.answer_arrives()

    @rule()
    def heartbeat_arrives(self) -> None:
        self._expire()
        joined = self.lease == 0
        if joined:
            self.leases += 1
            self.lease = self.leases
        self.renewed_at = self.now
        self.beats = [(self.now, str(self.lease), joined)]  # the answer before it was lost

    @precondition(lambda self: self.beats)
    @rule()
    def answer_arrives(self) -> None:
        sent_at, lease, joined = self.beats.pop()
        self.membership.beat(sent_at, lease, joined=joined)

    @precondition(lambda self: self.membership.is_member)
    @rule(is_answered=st.booleans())
    def report(self, *, is_answered: bool) -> None:
        self._expire()
        sent = self.membership.begin_report()
        if self.lease == 0:
            self.membership.end()
            return
        self.recorded = sent.resources[0].encoding_version
        if is_answered:
            self.membership.confirm(sent)
        else:
            self.membership.report_failed("lost")

    @rule(version=st.sampled_from([WIDGETS, WIDGETS_V2]))
    def upgrade(self, version: StoredResource) -> None:
        self.stored = version
        self.membership.update([version])

    @rule(seconds=st.sampled_from([0.1, 3.0, TRUSTED_S, 3 * TRUSTED_S]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self._expire()

    def _expire(self) -> None:
        if self.lease and self.now >= self.renewed_at + TRUSTED_S:
            self.lease = 0
            self.recorded = None

    @invariant()
    def what_may_be_written_is_recorded(self) -> None:
        if self.membership.gate().confirmed:
            assert self.lease
            assert self.recorded == self.stored.encoding_version


TestMemberships = Memberships.TestCase
