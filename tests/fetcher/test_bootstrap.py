"""Every policy in every state of the leader: what it asks and what it decides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tierfetch.fetcher.core.bootstrap import (
    AdoptFromTier,
    AskOffsets,
    Bootstrap,
    BootstrapPolicy,
    Decision,
    ResumeFetch,
    RetryLater,
    Situation,
    Standing,
    StartAt,
    Trigger,
    TruncateTo,
    choose_policy,
    obstacle_to_commit,
)
from tierfetch.fetcher.core.leader_offsets import UNKNOWN_OFFSET
from tierfetch.fetcher.core.policies import (
    UNKNOWN_UPLOAD_WAIT_MS,
    BoundedLocal,
    BoundedLocalConfig,
    EarliestPendingUpload,
    LocalLogStart,
    LogStart,
    TierFirst,
    boundary_keeping,
)
from tierfetch.protocol.errors import KafkaError
from tierfetch.remote.core import OffsetAndEpoch, RemoteLogLedger
from tierfetch.tests.fetcher.conversation import Leader, converse, decide
from tierfetch.tests.fetcher.model_log import ModelLog, model_log
from tierfetch.tests.fetcher.model_tier import ledger_of, segment

EMPTY = Situation(trigger=Trigger.ASSIGNED, log_end_offset=0, is_tiered=True)
REFUSED = [Trigger.OUT_OF_RANGE, Trigger.MOVED_TO_TIERED_STORAGE]
PENDING_UPLOAD_POLICIES = [EarliestPendingUpload(), TierFirst()]


def leader_with(
    *, end: int, tiered_end: int | None, start: int = 0, local_start: int = 0, is_ledger_read: bool = True
) -> Leader:
    log = model_log((0, 0), (2, 100), end=end)
    log.records = log.records[start:]
    log.log_start_offset = start
    log.local_log_start_offset = max(start, local_start)
    return Leader(log, tiered_up_to(log, tiered_end) if is_ledger_read else None)


def tiered_up_to(log: ModelLog, end: int | None) -> RemoteLogLedger:
    """One segment of the log's lineage, from its start."""
    if end is None:
        return ledger_of()
    epochs = [(entry.epoch, entry.start_offset) for entry in log.epochs.range(log.log_start_offset, end)]
    return ledger_of(segment(log.log_start_offset, end - 1, *epochs))


def after(trigger: Trigger, **situation: Any) -> Situation:
    return replace(EMPTY, trigger=trigger, **situation)


class TestChoice:
    """Which policy acts at all."""

    def chosen(self, situation: Situation) -> str:
        return choose_policy(situation, TierFirst(), LocalLogStart()).policy.name

    def test_F1_on_an_empty_tiered_replica(self) -> None:
        assert self.chosen(EMPTY) == "tier-first"

    @pytest.mark.parametrize(
        "situation",
        [
            replace(EMPTY, is_option_enabled=False),
            replace(EMPTY, is_tiered=False),
            replace(EMPTY, log_end_offset=7),
        ],
    )
    def test_F1_off_or_not_tiered_or_not_empty_is_local_log_start(self, situation: Situation) -> None:
        assert self.chosen(situation) == "local-log-start"

    def test_bootstrap_rule_11_a_compacted_topic_is_never_bootstrapped_from_the_tier(self) -> None:
        assert self.chosen(replace(EMPTY, is_compacted=True)) == "local-log-start"

    def test_bootstrap_rule_7_a_replica_that_was_never_in_the_isr_counts_as_empty(self) -> None:
        assert self.chosen(replace(EMPTY, log_end_offset=150, is_never_in_isr=True)) == "tier-first"

    def test_bootstrap_rule_7_a_cut_below_the_local_start_makes_the_replica_empty(self) -> None:
        cut = replace(EMPTY, log_end_offset=150, trigger=Trigger.TRUNCATED_BELOW_LOCAL_START)
        assert self.chosen(cut) == "tier-first"

    def test_F12_not_before_the_whole_cluster_supports_it_and_again_once_it_does(self) -> None:
        early = choose_policy(replace(EMPTY, is_feature_supported=False), TierFirst(), LocalLogStart())
        assert early.policy == LocalLogStart()
        assert "feature level" in (early.warning or "")
        assert self.chosen(EMPTY) == "tier-first"

    def test_bootstrap_rule_2_a_tier_that_gives_nothing_ends_in_local_log_start_with_a_warning(self) -> None:
        overdue = choose_policy(replace(EMPTY, is_tier_failing=True), TierFirst(), LocalLogStart())
        assert overdue.policy == LocalLogStart()
        assert "the tier has not given" in (overdue.warning or "")


@pytest.mark.parametrize("policy", [LocalLogStart(), EarliestPendingUpload()], ids=lambda policy: policy.name)
@pytest.mark.parametrize("end", [0, 7])
def test_F3_a_plain_fetch_comes_first(policy: BootstrapPolicy, end: int) -> None:
    leader = leader_with(end=199, tiered_end=150)
    assert converse(Bootstrap(policy, replace(EMPTY, log_end_offset=end)), leader) == ([], ResumeFetch())


def test_F3_tier_first_asks_before_the_first_fetch_even_where_the_leader_has_all_locally() -> None:
    asked, decision = converse(Bootstrap(TierFirst(), EMPTY), leader_with(end=199, tiered_end=150))
    assert asked[0] == AskOffsets((-1, -2, -6))
    assert decision == AdoptFromTier(0, 150, 2)


class TestF5:
    """KIP-405: after a refusal."""

    def after_refusal(self, trigger: Trigger, log_end_offset: int, leader: Leader) -> Decision:
        return decide(LocalLogStart(), after(trigger, log_end_offset=log_end_offset), leader)

    def test_F5_own_end_above_the_leaders_is_truncated(self) -> None:
        leader = leader_with(end=120, tiered_end=None)
        assert self.after_refusal(Trigger.OUT_OF_RANGE, 130, leader) == TruncateTo(120)

    def test_F5_own_end_below_the_log_start_starts_there(self) -> None:
        leader = leader_with(end=120, start=40, tiered_end=None)
        assert self.after_refusal(Trigger.OUT_OF_RANGE, 39, leader) == StartAt(40)

    @pytest.mark.parametrize("log_end_offset", [40, 70, 120])
    def test_F5_otherwise_everything_is_kept(self, log_end_offset: int) -> None:
        leader = leader_with(end=120, start=40, tiered_end=None)
        assert self.after_refusal(Trigger.OUT_OF_RANGE, log_end_offset, leader) == ResumeFetch()

    def test_F5_moved_adopts_up_to_the_local_start(self) -> None:
        leader = leader_with(end=180, local_start=120, tiered_end=150)
        assert self.after_refusal(Trigger.MOVED_TO_TIERED_STORAGE, 30, leader) == AdoptFromTier(0, 120, 2)


@pytest.mark.parametrize("trigger", [Trigger.ASSIGNED, Trigger.MOVED_TO_TIERED_STORAGE])
def test_log_start_begins_there_if_that_is_local(trigger: Trigger) -> None:
    local = leader_with(end=180, start=40, local_start=40, tiered_end=150)
    tiered = leader_with(end=180, start=40, local_start=120, tiered_end=150)
    assert decide(LogStart(), after(trigger), local) == StartAt(40)
    assert decide(LogStart(), after(trigger), tiered) == AdoptFromTier(40, 120, 2)


@pytest.mark.parametrize("policy", PENDING_UPLOAD_POLICIES, ids=lambda policy: policy.name)
@pytest.mark.parametrize("trigger", REFUSED)
class TestPendingUpload:
    """What both KIP-1023 as written and tier-first do after a refusal."""

    def test_F6_adopts_log_start_to_pending_upload(self, policy: BootstrapPolicy, trigger: Trigger) -> None:
        leader = leader_with(end=199, start=20, local_start=60, tiered_end=150)
        assert decide(policy, after(trigger), leader) == AdoptFromTier(20, 150, 2)

    def test_F6_the_epoch_is_the_one_of_the_record_below(self, policy: BootstrapPolicy, trigger: Trigger) -> None:
        leader = leader_with(end=199, local_start=60, tiered_end=100)
        assert decide(policy, after(trigger), leader) == AdoptFromTier(0, 100, 0)

    @pytest.mark.parametrize("pending", [19, 20])
    def test_F8_pending_upload_at_or_below_the_log_start_looks_nothing_up(
        self, policy: BootstrapPolicy, trigger: Trigger, pending: int
    ) -> None:
        leader = leader_with(end=199, start=20, local_start=20, tiered_end=None)
        leader.offsets[-6] = OffsetAndEpoch(pending, 0)
        asked, decision = converse(Bootstrap(policy, after(trigger)), leader)
        assert decision == StartAt(20)
        assert all(isinstance(question, AskOffsets) for question in asked)

    def test_F12_error_35_takes_local_log_start(self, policy: BootstrapPolicy, trigger: Trigger) -> None:
        leader = leader_with(end=199, start=20, local_start=60, tiered_end=150)
        leader.version = 10
        expected = {Trigger.OUT_OF_RANGE: StartAt(20), Trigger.MOVED_TO_TIERED_STORAGE: AdoptFromTier(20, 60, 0)}
        assert decide(policy, after(trigger), leader) == expected[trigger]


class TestF7:
    """The pending upload is unknown (-1)."""

    def test_F7_as_written_unknown_and_all_local_starts_at_once(self) -> None:
        leader = leader_with(end=199, start=20, local_start=20, tiered_end=None, is_ledger_read=False)
        assert decide(EarliestPendingUpload(), after(Trigger.OUT_OF_RANGE), leader) == StartAt(20)

    def test_F7_tier_first_unknown_and_all_local_waits_for_a_new_leader_up_to_a_deadline(self) -> None:
        leader = leader_with(end=199, start=20, local_start=20, tiered_end=None, is_ledger_read=False)
        early = decide(TierFirst(), replace(EMPTY, elapsed_ms=UNKNOWN_UPLOAD_WAIT_MS - 1), leader)
        late = decide(TierFirst(), replace(EMPTY, elapsed_ms=UNKNOWN_UPLOAD_WAIT_MS), leader)
        assert isinstance(early, RetryLater)
        assert late == StartAt(20)

    @pytest.mark.parametrize("policy", PENDING_UPLOAD_POLICIES, ids=lambda policy: policy.name)
    def test_F7_unknown_otherwise_retries_until_the_leader_learns(self, policy: BootstrapPolicy) -> None:
        leader = leader_with(end=199, local_start=60, tiered_end=150, is_ledger_read=False)
        moved = after(Trigger.MOVED_TO_TIERED_STORAGE, elapsed_ms=3_600_000)
        assert isinstance(decide(policy, moved, leader), RetryLater)
        leader.ledger = tiered_up_to(leader.log, 150)
        assert decide(policy, moved, leader) == AdoptFromTier(0, 150, 2)

    def test_tier_first_joins_a_java_leader_that_says_unknown_because_nothing_is_pending(self) -> None:
        leader = leader_with(end=199, local_start=199, tiered_end=199)
        leader.offsets[-6] = UNKNOWN_OFFSET
        assert decide(TierFirst(), EMPTY, leader) == AdoptFromTier(0, 199, 2)
        moved = after(Trigger.MOVED_TO_TIERED_STORAGE)
        assert isinstance(decide(EarliestPendingUpload(), moved, leader), RetryLater)


class TestTierFirst:
    def test_F12_a_leader_of_an_older_version_is_fetched_from_plainly(self) -> None:
        leader = leader_with(end=199, tiered_end=150)
        leader.version = 10
        assert decide(TierFirst(), EMPTY, leader) == ResumeFetch()
        leader.version = 11
        assert decide(TierFirst(), EMPTY, leader) == AdoptFromTier(0, 150, 2)

    def test_an_empty_leader_is_no_reason_to_wait(self) -> None:
        leader = leader_with(end=0, tiered_end=None, is_ledger_read=False)
        assert converse(Bootstrap(TierFirst(), EMPTY), leader) == ([AskOffsets((-1, -2, -6))], ResumeFetch())

    def test_nothing_pending_starts_at_the_log_end(self) -> None:
        assert decide(TierFirst(), EMPTY, leader_with(end=199, local_start=199, tiered_end=199)) == AdoptFromTier(
            0, 199, 2
        )

    @pytest.mark.parametrize(
        ("log_end_offset", "expected"),
        [(149, AdoptFromTier(0, 150, 2)), (150, ResumeFetch()), (170, ResumeFetch())],
    )
    def test_a_replica_that_died_on_the_way_goes_on_unless_the_tier_is_ahead(
        self, log_end_offset: int, expected: Decision
    ) -> None:
        situation = replace(EMPTY, log_end_offset=log_end_offset, is_never_in_isr=True)
        assert decide(TierFirst(), situation, leader_with(end=199, tiered_end=150)) == expected

    def test_bootstrap_rule_7_a_cut_below_the_local_start_begins_aside_although_the_replica_is_long(self) -> None:
        cut = after(Trigger.TRUNCATED_BELOW_LOCAL_START, log_end_offset=170)
        assert decide(TierFirst(), cut, leader_with(end=199, tiered_end=150)) == AdoptFromTier(0, 150, 2)
        assert decide(LocalLogStart(), cut, leader_with(end=199, tiered_end=None)) == StartAt(0)

    def test_a_refused_replica_is_not_kept_because_it_is_long(self) -> None:
        refused = after(Trigger.OUT_OF_RANGE, log_end_offset=400, is_never_in_isr=True)
        assert decide(TierFirst(), refused, leader_with(end=199, tiered_end=None)) == StartAt(0)


class TestConformanceVectors:
    """Apache Kafka's own: leader log start 0, earliest pending upload 150, high watermark 199."""

    def replica_begins_at(self, situation: Situation) -> int:
        choice = choose_policy(situation, EarliestPendingUpload(), LocalLogStart())
        decision = decide(choice.policy, situation, leader_with(end=199, tiered_end=150))
        match decision:
            case AdoptFromTier(_, start_offset, _):
                return start_offset
            case StartAt(offset):
                return offset
            case _:
                assert isinstance(decision, ResumeFetch)
                return situation.log_end_offset

    def test_F6_option_on(self) -> None:
        assert self.replica_begins_at(after(Trigger.OUT_OF_RANGE)) == 150

    def test_F5_option_off(self) -> None:
        assert self.replica_begins_at(after(Trigger.OUT_OF_RANGE, is_option_enabled=False)) == 0

    def test_F5_option_on_but_remote_log_disabled(self) -> None:
        assert self.replica_begins_at(after(Trigger.OUT_OF_RANGE, is_tiered=False)) == 0


class TestBoundedLocal:
    SEGMENTS = tuple(
        segment(start, start + 29, size=1000, max_timestamp_ms=10 * (start + 29)) for start in range(0, 150, 30)
    )

    def leader(self, *, local_start: int = 0) -> Leader:
        log = model_log((0, 0), end=199)
        log.local_log_start_offset = local_start
        return Leader(log, ledger_of(*self.SEGMENTS), segments=self.SEGMENTS)

    @pytest.mark.parametrize(
        ("bytes_min", "start_offset"), [(0, 150), (1, 120), (1000, 120), (1001, 90), (3000, 60), (4000, 30)]
    )
    def test_keeps_at_least_so_many_bytes_from_a_segment_boundary_on(self, bytes_min: int, start_offset: int) -> None:
        policy = BoundedLocal(BoundedLocalConfig(bytes=bytes_min))
        assert decide(policy, EMPTY, self.leader()) == AdoptFromTier(0, start_offset, 0)

    @pytest.mark.parametrize(("local_ms_min", "start_offset"), [(10, 150), (509, 120), (510, 90), (600, 90)])
    def test_keeps_the_records_of_so_many_ms(self, local_ms_min: int, start_offset: int) -> None:
        situation = replace(EMPTY, now_ms=1_700)
        policy = BoundedLocal(BoundedLocalConfig(ms=local_ms_min))
        assert decide(policy, situation, self.leader()) == AdoptFromTier(0, start_offset, 0)

    def test_all_of_it_begins_at_a_local_log_start(self) -> None:
        assert decide(BoundedLocal(BoundedLocalConfig(bytes=10**9)), EMPTY, self.leader()) == ResumeFetch()

    def test_never_below_the_leaders_local_start(self) -> None:
        policy = BoundedLocal(BoundedLocalConfig(bytes=3000))
        assert decide(policy, EMPTY, self.leader(local_start=100)) == AdoptFromTier(0, 100, 0)
        assert decide(policy, EMPTY, self.leader(local_start=150)) == AdoptFromTier(0, 150, 0)

    def test_of_overlapping_uploads_the_latest_leaders_counts(self) -> None:
        old = segment(60, 149, (0, 60), size=10, number=1)
        new = [segment(100, 149, (1, 100), size=10, number=2), segment(60, 99, (0, 60), size=10, number=3)]
        boundary = boundary_keeping([old, *new], 150, bytes_min=10, since_ms=None)
        assert boundary is not None
        assert (boundary.offset, boundary.epoch_below) == (100, 0)

    def test_a_gap_ends_the_search(self) -> None:
        boundary = boundary_keeping([segment(0, 49), segment(100, 149)], 150, bytes_min=10**9, since_ms=None)
        assert boundary is not None
        assert (boundary.offset, boundary.epoch_below) == (100, -1)


ASKED = Standing(topic_id=UUID(int=1), leader_epoch=5)


@pytest.mark.parametrize(
    ("now", "log_start", "obstacle"),
    [
        (ASKED, 0, None),
        (ASKED, 149, None),
        (ASKED, 150, "has reached the start offset"),
        (ASKED, 151, "has reached the start offset"),
        (Standing(UUID(int=2), 5), 0, "recreated"),
        (Standing(UUID(int=1), 6), 0, "leader epoch 6 has begun"),
    ],
)
def test_bootstrap_rule_3_the_commit_is_refused_when_its_ground_is_gone(
    now: Standing, log_start: int, obstacle: str | None
) -> None:
    found = obstacle_to_commit(ASKED, now, log_start, 150)
    assert (found is None) if obstacle is None else (obstacle in (found or ""))


def test_bootstrap_rule_3_nothing_to_adopt_where_the_log_start_is_the_start() -> None:
    assert decide(TierFirst(), EMPTY, leader_with(end=199, start=150, tiered_end=None)) == StartAt(150)
    with pytest.raises(AssertionError, match="nothing to adopt"):
        AdoptFromTier(150, 150, 0)


def test_a_leader_without_a_local_start_is_the_peers_fault() -> None:
    leader = leader_with(end=199, local_start=60, tiered_end=150)
    leader.version = 7
    with pytest.raises(KafkaError, match="timestamp -4"):
        decide(LocalLogStart(), after(Trigger.MOVED_TO_TIERED_STORAGE), leader)


def test_a_decided_bootstrap_takes_no_more_answers() -> None:
    bootstrap = Bootstrap(LocalLogStart(), EMPTY)
    bootstrap.start()
    with pytest.raises(AssertionError, match="already decided"):
        bootstrap.on_answer(leader_with(end=9, tiered_end=None).answer(AskOffsets((-1,))))
