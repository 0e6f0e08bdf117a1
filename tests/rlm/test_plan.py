"""One decision of the plan each: given a view, the literal actions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tierfetch.log.core import LogConfig
from tierfetch.rlm.core.plan import (
    PROOFS_MAX,
    AbandonOrphan,
    Copy,
    DeleteLocal,
    DeleteRemote,
    Prove,
    RaiseLogStart,
    RollActive,
    pending_copies,
    plan,
)
from tierfetch.rlm.core.view import PartitionView, TierMode, TierPolicy

from .views import DELETING, ME, OTHER, STARTED, changed, ids, local, policy, remote, segment_id, view

NOW = 10_000


class TestCopy:
    def test_R1_oldest_closed_segment_goes_first(self) -> None:
        assert plan(view(), NOW) == [Copy(local(0, 100))]

    def test_R1_copies_go_on_behind_what_is_tiered(self) -> None:
        assert plan(view(remote=(remote(1, 0, 100),)), NOW) == [Copy(local(100, 200))]

    def test_R1_active_segment_is_never_copied(self) -> None:
        assert plan(view(remote=(remote(1, 0, 300),)), NOW) == []

    def test_R1_nothing_above_the_last_stable_offset(self) -> None:
        assert plan(view(last_stable_offset=99), NOW) == []
        assert plan(view(last_stable_offset=100), NOW) == [Copy(local(0, 100))]

    def test_R1_one_copy_at_a_time(self) -> None:
        started = remote(1, 0, 100, state=STARTED)
        assert plan(view(remote=(started,), in_flight=frozenset(ids(1))), NOW) == []

    def test_R1_follower_never_copies(self) -> None:
        assert plan(view(leader_epoch=None), NOW) == []

    def test_R1_new_leader_with_other_segment_borders_goes_on_where_the_old_one_stopped(self) -> None:
        changed = view(
            leader_epoch=1,
            epochs=((0, 0), (1, 180)),
            closed=(local(0, 80), local(80, 180), local(180, 300)),
            remote=(remote(1, 0, 100), remote(2, 100, 150)),
        )
        assert plan(changed, NOW) == [Copy(local(80, 180))]

    def test_R1_segment_below_the_log_start_is_not_copied(self) -> None:
        raised = view(log_start_offset=150, local_log_start_offset=150)
        assert pending_copies(raised) == [local(100, 200), local(200, 300)]

    def test_R2_segment_that_straddles_a_divergence_does_not_count(self) -> None:
        changed = view(
            leader_epoch=2,
            epochs=((0, 0), (2, 150)),
            remote=(remote(1, 0, 100), remote(2, 100, 200, epochs=((0, 100),))),
        )
        assert plan(changed, NOW) == [Copy(local(100, 200))]

    def test_segment_that_went_missing_is_copied_again(self) -> None:
        tiered = (remote(1, 0, 100), remote(2, 100, 200), remote(3, 200, 300))
        assert plan(view(remote=tiered, disproven=frozenset(ids(2))), NOW) == [Copy(local(100, 200))]

    def test_empty_closed_segment_has_nothing_to_copy(self) -> None:
        assert plan(view(closed=(local(0, 0, 0), local(0, 300))), NOW) == [Copy(local(0, 300)), DeleteLocal(0)]


@pytest.mark.parametrize(
    ("topic", "config", "mode"),
    [
        ("orders", LogConfig(remote_storage_enable=True), TierMode.COPYING),
        ("orders", LogConfig(remote_storage_enable=True, remote_log_copy_disable=True), TierMode.READ_ONLY),
        ("orders", LogConfig(remote_log_delete_on_disable=True), TierMode.DELETING),
        ("orders", LogConfig(), TierMode.UNTIERED),
        ("orders", LogConfig(remote_storage_enable=True, cleanup_policy=frozenset({"compact"})), TierMode.UNTIERED),
        ("__consumer_offsets", LogConfig(remote_storage_enable=True), TierMode.UNTIERED),
        ("__remote_log_metadata", LogConfig(remote_storage_enable=True), TierMode.UNTIERED),
    ],
)
def test_R6_bootstrap_rule_11_policy_of_a_topic(topic: str, config: LogConfig, mode: TierMode) -> None:
    assert TierPolicy.of(topic, config).mode is mode


def test_R4_local_retention_is_inherited_and_counts_only_while_copying() -> None:
    config = LogConfig(remote_storage_enable=True, retention_ms=500, retention_bytes=600, local_retention_bytes=60)
    assert TierPolicy.of("orders", config) == TierPolicy(TierMode.COPYING, 500, 600, 500, 60)
    read_only = replace(config, remote_log_copy_disable=True)
    assert TierPolicy.of("orders", read_only) == TierPolicy(TierMode.READ_ONLY, 500, 600, 500, 600)
    no_policy = replace(config, cleanup_policy=frozenset())
    assert TierPolicy.of("orders", no_policy) == TierPolicy(TierMode.COPYING, -1, -1, 500, 60)


class TestOrphans:
    def test_R3_own_attempt_that_is_not_in_flight_goes_at_once(self) -> None:
        left = remote(1, 0, 100, state=STARTED, broker_id=ME, at_ms=NOW)
        assert plan(view(remote=(left,)), NOW) == [Copy(local(0, 100)), AbandonOrphan(segment_id(1))]

    @pytest.mark.parametrize(("age_ms", "swept"), [(2000, False), (2001, True)])
    def test_R3_attempt_of_another_leader_goes_once_its_upload_must_have_ended(self, age_ms: int, swept: bool) -> None:
        left = remote(1, 0, 100, state=STARTED, broker_id=OTHER, at_ms=NOW - age_ms)
        copied = view(remote=(remote(2, 0, 100), left), proven=frozenset(ids(2)))
        assert plan(copied, NOW) == [Copy(local(100, 200))] + [AbandonOrphan(segment_id(1))] * swept

    def test_R3_attempt_of_another_leader_stays_until_other_copies_hold_its_offsets(self) -> None:
        """It may be finished at the last moment, and a follower delete its local segments on the strength of it."""
        left = remote(1, 50, 200, state=STARTED, broker_id=OTHER, at_ms=0)
        assert plan(view(remote=(left,)), NOW) == [Copy(local(0, 100))]
        assert plan(view(remote=(remote(2, 0, 100), left)), NOW) == [Copy(local(100, 200))]
        both = (remote(2, 0, 100), left, remote(3, 100, 200))
        unproven = view(remote=both, proven=frozenset(ids(2)))
        assert plan(unproven, NOW) == [Copy(local(200, 300)), Prove(ids(3))]
        proven = view(remote=both, proven=frozenset(ids(2, 3)))
        assert plan(proven, NOW) == [Copy(local(200, 300)), AbandonOrphan(segment_id(1))]

    def test_R3_attempt_of_another_leader_beyond_the_log_end_holds_nothing_of_this_log(self) -> None:
        left = remote(1, 1000, 1100, state=STARTED, broker_id=OTHER, at_ms=0)
        assert AbandonOrphan(segment_id(1)) in plan(view(remote=(left,)), NOW)

    @pytest.mark.parametrize("mode", [TierMode.READ_ONLY, TierMode.DELETING])
    def test_R3_where_nothing_is_copied_no_local_segment_goes_for_an_attempt(self, mode: TierMode) -> None:
        left = remote(1, 0, 100, state=STARTED, broker_id=OTHER, at_ms=0)
        assert AbandonOrphan(segment_id(1)) in plan(view(remote=(left,), policy=policy(mode)), NOW)

    def test_R3_an_attempt_below_the_log_start_waits_for_no_proof(self) -> None:
        left = remote(1, 0, 100, state=STARTED, broker_id=OTHER, at_ms=0)
        expired = view(
            remote=(left, remote(2, 50, 200)), log_start_offset=100, closed=(local(100, 200),), proven=frozenset()
        )
        assert plan(expired, NOW)[-1] == AbandonOrphan(segment_id(1))

    def test_R3_follower_sweeps_nothing(self) -> None:
        left = remote(1, 0, 100, state=STARTED)
        assert plan(view(remote=(left,), leader_epoch=None), NOW) == []

    def test_deletion_that_was_begun_is_ended_by_whoever_leads(self) -> None:
        tiered = (remote(1, 0, 100, state=DELETING, broker_id=OTHER), remote(2, 100, 300))
        at_100 = view(remote=tiered, log_start_offset=100, closed=(local(100, 200), local(200, 300)))
        assert plan(at_100, NOW) == [DeleteRemote(ids(1))]


TIERED = (remote(1, 0, 100), remote(2, 100, 200), remote(3, 200, 300))
ALL = frozenset(ids(1, 2, 3))


class TestLocalRetention:
    def test_R4_by_size_needs_proof_first(self) -> None:
        limited = view(remote=TIERED, policy=policy(local_retention_bytes=1500))
        assert plan(limited, NOW) == [Prove(ids(1, 2))]
        assert plan(changed(limited, proven=frozenset(ids(1))), NOW) == [Prove(ids(2)), DeleteLocal(100)]
        assert plan(changed(limited, proven=ALL), NOW) == [DeleteLocal(200)]

    @pytest.mark.parametrize(("limit", "up_to"), [(2500, 100), (2501, 0), (1500, 200), (501, 200), (500, 300)])
    def test_R4_a_segment_goes_by_size_only_as_a_whole(self, limit: int, up_to: int) -> None:
        limited = view(remote=TIERED, proven=ALL, policy=policy(local_retention_bytes=limit))
        assert plan(limited, NOW) == ([DeleteLocal(up_to)] if up_to else [])

    def test_R4_by_time(self) -> None:
        limited = view(remote=TIERED, proven=ALL, policy=policy(local_retention_ms=NOW - 200))
        assert plan(limited, NOW) == [DeleteLocal(200)]

    def test_R4_active_segment_that_breaches_is_rolled(self) -> None:
        limited = view(remote=TIERED, proven=ALL, policy=policy(local_retention_ms=0))
        assert plan(limited, NOW) == [DeleteLocal(300), RollActive(300)]

    def test_active_segment_is_not_rolled_while_older_ones_must_stay(self) -> None:
        limited = view(remote=TIERED[:2], proven=ALL, policy=policy(local_retention_ms=0))
        assert plan(limited, NOW) == [Copy(local(200, 300)), DeleteLocal(200)]

    def test_active_segment_is_not_rolled_above_the_high_watermark(self) -> None:
        limited = view(
            remote=TIERED, proven=ALL, high_watermark=349, log_end_offset=350, policy=policy(local_retention_ms=0)
        )
        assert plan(limited, NOW) == [DeleteLocal(300)]

    def test_empty_active_segment_is_not_rolled(self) -> None:
        limited = view(
            remote=TIERED,
            proven=ALL,
            active=local(300, 300),
            high_watermark=300,
            log_end_offset=300,
            policy=policy(local_retention_ms=0),
        )
        # A segment that ends where the log does lies within the log.
        assert plan(limited, NOW) == [DeleteLocal(300)]

    def test_nothing_untiered_goes(self) -> None:
        assert plan(view(policy=policy(local_retention_bytes=0), last_stable_offset=0), NOW) == []

    def test_nothing_above_the_high_watermark_goes(self) -> None:
        limited = view(
            remote=TIERED, proven=ALL, high_watermark=150, log_end_offset=350, policy=policy(local_retention_bytes=0)
        )
        assert plan(limited, NOW) == [DeleteLocal(100)]

    def test_local_segment_whose_tail_is_not_tiered_stays(self) -> None:
        limited = view(remote=(remote(1, 0, 150),), proven=ALL, policy=policy(local_retention_bytes=0))
        assert plan(limited, NOW) == [Copy(local(100, 200)), DeleteLocal(100)]

    def test_gap_in_the_tier_stops_local_deletion(self) -> None:
        limited = view(remote=(TIERED[0], TIERED[2]), proven=ALL, policy=policy(local_retention_bytes=0))
        assert plan(limited, NOW) == [Copy(local(100, 200)), DeleteLocal(100)]

    def test_disproven_segment_stops_local_deletion(self) -> None:
        limited = view(
            remote=TIERED,
            proven=frozenset(ids(1, 3)),
            disproven=frozenset(ids(2)),
            policy=policy(local_retention_bytes=0),
        )
        assert plan(limited, NOW) == [Copy(local(100, 200)), DeleteLocal(100)]

    def test_R2_bootstrap_rule_9_follower_deletes_up_to_the_highest_remote_offset_of_its_own_lineage(self) -> None:
        follower = view(
            leader_epoch=None,
            epochs=((0, 0), (1, 150)),
            remote=(
                remote(1, 0, 100),
                remote(2, 100, 200, epochs=((0, 100), (1, 150))),
                remote(3, 200, 300, epochs=((2, 200),)),
            ),
            proven=ALL,
            policy=policy(local_retention_bytes=0),
        )
        assert plan(follower, NOW) == [DeleteLocal(200)]

    def test_R2_bootstrap_rule_9_follower_that_lags_keeps_what_the_tier_has_beyond_its_end(self) -> None:
        follower = view(
            leader_epoch=None,
            closed=(local(0, 100),),
            active=local(100, 150),
            high_watermark=150,
            remote=(remote(1, 0, 60), remote(2, 60, 160)),
            proven=ALL,
            policy=policy(local_retention_bytes=0),
        )
        assert plan(follower, NOW) == []

    def test_bootstrap_rule_9_follower_deletes_nothing_for_a_tier_of_another_history(self) -> None:
        """The tier holds all its offsets, as a leader wrote them whose epochs this replica does not have."""
        follower = view(
            leader_epoch=None,
            epochs=((0, 0), (3, 50)),
            remote=tuple(remote(n, n * 100 - 100, n * 100, epochs=((0, n * 100 - 100),)) for n in (1, 2, 3)),
            proven=ALL,
            policy=policy(local_retention_bytes=0),
        )
        assert plan(follower, NOW) == []

    def test_bootstrap_rule_9_follower_writes_nothing_to_the_tier(self) -> None:
        """Whatever there is to do: orphans, expired segments, closed ones that nobody has copied."""
        busy = view(
            leader_epoch=None,
            log_start_offset=100,
            remote=(remote(1, 0, 100), remote(2, 100, 200, state=STARTED), remote(3, 0, 100, state=DELETING)),
            proven=ALL,
            policy=policy(local_retention_bytes=0, retention_ms=0, retention_bytes=0),
        )
        assert plan(busy, NOW) == [DeleteLocal(100)]

    def test_segments_below_the_log_start_go_without_proof(self) -> None:
        assert plan(view(log_start_offset=250, policy=policy(TierMode.DELETING)), NOW) == [DeleteLocal(200)]
        follower = view(log_start_offset=250, leader_epoch=None, policy=policy(TierMode.READ_ONLY))
        assert plan(follower, NOW) == [DeleteLocal(200)]

    def test_proofs_are_asked_in_portions(self) -> None:
        count = PROOFS_MAX + 10
        tiered = tuple(remote(n + 1, n * 10, n * 10 + 10) for n in range(count))
        limited = view(
            closed=tuple(local(n * 10, n * 10 + 10) for n in range(count)),
            active=local(count * 10, count * 10 + 5),
            high_watermark=count * 10 + 5,
            remote=tiered,
            policy=policy(local_retention_bytes=100),
        )
        (prove,) = plan(limited, NOW)
        assert isinstance(prove, Prove)
        assert prove.segment_ids == tuple(segment.segment_id for segment in tiered[:PROOFS_MAX])


class TestRemoteRetention:
    """All segments tiered, [0, 200) in the tier alone."""

    def expiring(self, **changes: Any) -> PartitionView:
        values: dict[str, Any] = {
            "remote": TIERED,
            "closed": (local(200, 300),),
            "log_start_offset": 0,
            "local_log_start_offset": 200,
        }
        return view(**{**values, **changes})

    def test_R4_bootstrap_rule_8_by_time_raises_the_log_start_first(self) -> None:
        assert plan(self.expiring(policy=policy(retention_ms=NOW - 150)), NOW) == [RaiseLogStart(100, "retention")]

    @pytest.mark.parametrize(
        ("limit", "to_offset"), [(3500, 0), (2501, 0), (2500, 100), (1501, 100), (1500, 200), (0, 300)]
    )
    def test_R4_by_size_of_tier_and_untiered_local_segments(self, limit: int, to_offset: int) -> None:
        expected = [RaiseLogStart(to_offset, "retention")] if to_offset else []
        assert plan(self.expiring(policy=policy(retention_bytes=limit)), NOW) == expected

    def test_bytes_that_two_leaders_copied_count_once(self) -> None:
        twice = (TIERED[0], remote(4, 0, 100), *TIERED[1:])
        assert plan(self.expiring(remote=twice, policy=policy(retention_bytes=2501)), NOW) == []

    def test_bytes_of_uploads_that_overlap_in_part_count_by_their_offsets(self) -> None:
        """A new leader's segments begin elsewhere: [50, 150) adds nothing to [0, 100) and [100, 200)."""
        across = (TIERED[0], remote(4, 50, 150), *TIERED[1:])
        assert plan(self.expiring(remote=across, policy=policy(retention_bytes=2501)), NOW) == []
        assert plan(self.expiring(remote=across, policy=policy(retention_bytes=2500)), NOW) != []

    def test_R4_bootstrap_rule_8_remote_segments_go_once_the_whole_isr_has_the_log_start(self) -> None:
        raised = self.expiring(
            log_start_offset=200, isr_log_start_min=100, epochs=((0, 200),), policy=policy(retention_ms=NOW - 250)
        )
        assert plan(raised, NOW) == [DeleteRemote(ids(1))]
        assert plan(changed(raised, isr_log_start_min=199), NOW) == [DeleteRemote(ids(1))]
        assert plan(changed(raised, isr_log_start_min=200), NOW) == [DeleteRemote(ids(1, 2))]

    def test_deletion_of_records_by_a_client_reaches_the_tier(self) -> None:
        raised = self.expiring(log_start_offset=150, epochs=((0, 150),))
        assert plan(raised, NOW) == [DeleteRemote(ids(1))]

    def test_log_start_never_passes_the_high_watermark(self) -> None:
        behind = self.expiring(high_watermark=120, log_end_offset=350, policy=policy(retention_ms=0))
        assert plan(behind, NOW) == [RaiseLogStart(100, "retention")]

    def test_young_segment_protects_older_ones_behind_it(self) -> None:
        young = replace(TIERED[0], max_timestamp_ms=NOW)
        assert plan(self.expiring(remote=(young, *TIERED[1:]), policy=policy(retention_ms=NOW - 250)), NOW) == []

    def test_retention_passes_a_gap_that_nobody_can_fill(self) -> None:
        straddling = remote(2, 100, 200, epochs=((1, 100),))
        with_gap = self.expiring(
            leader_epoch=2, remote=(TIERED[0], straddling, TIERED[2]), policy=policy(retention_ms=NOW - 250)
        )
        assert plan(with_gap, NOW) == [RaiseLogStart(100, "retention")]
        assert plan(changed(with_gap, policy=policy(retention_ms=0)), NOW) == [RaiseLogStart(300, "retention")]

    def test_retention_stops_at_a_gap_that_is_still_local(self) -> None:
        with_gap = view(
            remote=(TIERED[0], TIERED[2]),
            closed=(local(50, 150), local(150, 200), local(200, 300)),
            local_log_start_offset=50,
            policy=policy(retention_ms=0),
        )
        assert plan(with_gap, NOW) == [Copy(local(50, 150)), RaiseLogStart(100, "retention")]

    def test_segments_of_epochs_that_left_the_lineage_go(self) -> None:
        lost = remote(9, 320, 340, epochs=((1, 320),))
        later = self.expiring(
            leader_epoch=5,
            epochs=((5, 300),),
            log_start_offset=300,
            closed=(),
            local_log_start_offset=300,
            remote=(lost,),
        )
        assert plan(later, NOW) == [DeleteRemote(ids(9))]
        assert plan(changed(later, isr_log_start_min=200), NOW) == []

    def test_log_start_that_did_not_survive_is_raised_again(self) -> None:
        lower = self.expiring(remote=TIERED[1:], isr_log_start_min=0, deleted_to=100)
        assert plan(lower, NOW) == [RaiseLogStart(100, "the tier holds nothing below")]
        gone = self.expiring(remote=(), deleted_to=200)
        assert plan(gone, NOW)[-1] == RaiseLogStart(200, "the tier holds nothing below")

    @pytest.mark.parametrize("remote_segments", [(), TIERED[1:], TIERED[2:], (TIERED[1],)])
    def test_remote_metadata_that_is_lost_in_part_raises_nothing(self, remote_segments: tuple[Any, ...]) -> None:
        """Nothing tells that the first segments were deleted: they are in the tier all the same."""
        for mode in (TierMode.COPYING, TierMode.READ_ONLY):
            actions = plan(self.expiring(remote=remote_segments, policy=policy(mode)), NOW)
            assert not any(isinstance(action, RaiseLogStart | DeleteRemote) for action in actions), actions

    def test_log_start_rises_at_most_to_what_is_held_somewhere(self) -> None:
        """A twin of what was deleted is still there; or the local log has it."""
        twin = self.expiring(remote=(remote(9, 50, 150),), isr_log_start_min=0, deleted_to=200)
        assert RaiseLogStart(50, "the tier holds nothing below") in plan(twin, NOW)
        local_only = view(remote=(), deleted_to=300)
        assert not any(isinstance(action, RaiseLogStart) for action in plan(local_only, NOW))

    def test_deposed_leader_plans_nothing(self) -> None:
        newer = (*TIERED[:2], remote(3, 200, 300, epochs=((0, 200), (1, 250))))
        limited = self.expiring(remote=newer, policy=policy(retention_ms=0, local_retention_ms=0))
        assert plan(limited, NOW) == []

    def test_copy_that_was_replaced_goes(self) -> None:
        tiered = (*TIERED, remote(4, 200, 300))
        assert plan(self.expiring(remote=tiered, disproven=frozenset(ids(3))), NOW) == [DeleteRemote(ids(3))]

    def test_copy_whose_last_offset_no_other_copy_holds_stays(self) -> None:
        tiered = (*TIERED, remote(4, 200, 299))
        actions = plan(self.expiring(remote=tiered, disproven=frozenset(ids(3))), NOW)
        assert not any(isinstance(action, DeleteRemote) for action in actions)

    @pytest.mark.parametrize("log_start_offset", [0, 99, 100])
    def test_log_start_stays_where_a_remote_segment_holds_it(self, log_start_offset: int) -> None:
        held = self.expiring(remote=TIERED, log_start_offset=log_start_offset, isr_log_start_min=0)
        assert plan(held, NOW) == []

    def test_what_the_copier_is_at_is_not_deleted(self) -> None:
        tiered = (*TIERED[:2], remote(3, 200, 300, state=DELETING))
        busy = self.expiring(remote=tiered, in_flight=frozenset(ids(3)))
        assert not any(isinstance(action, DeleteRemote) for action in plan(busy, NOW))


class TestDisableAndEnable:
    def test_R6_copy_disable_reads_and_expires_but_copies_nothing(self) -> None:
        read_only = view(
            remote=TIERED[:2],
            closed=(local(100, 200), local(200, 300)),
            log_start_offset=0,
            local_log_start_offset=100,
            policy=policy(TierMode.READ_ONLY, retention_ms=NOW - 50),
        )
        assert plan(read_only, NOW) == []
        expiring = changed(read_only, policy=policy(TierMode.READ_ONLY, retention_ms=NOW - 150))
        assert plan(expiring, NOW) == [RaiseLogStart(100, "retention")]

    def test_R6_copy_disable_expires_local_segments_behind_the_tier(self) -> None:
        expiring = view(
            remote=TIERED[:1],
            closed=(local(100, 200), local(200, 300)),
            log_start_offset=0,
            local_log_start_offset=100,
            policy=policy(TierMode.READ_ONLY, retention_ms=NOW - 250, local_retention_ms=NOW - 250),
        )
        assert plan(expiring, NOW) == [RaiseLogStart(200, "retention")]

    def test_R6_disable_with_delete_raises_waits_and_empties_the_tier(self) -> None:
        disabled = view(
            remote=TIERED,
            closed=(local(200, 300),),
            log_start_offset=0,
            local_log_start_offset=200,
            policy=policy(TierMode.DELETING),
        )
        assert plan(disabled, NOW) == [RaiseLogStart(200, "remote storage was disabled")]
        raised = changed(disabled, log_start_offset=200, isr_log_start_min=100)
        assert plan(raised, NOW) == [DeleteRemote(ids(1))]
        assert plan(changed(raised, isr_log_start_min=200), NOW) == [DeleteRemote(ids(1, 2, 3))]

    def test_R6_F8_enabled_again_copies_from_the_log_start(self) -> None:
        enabled = view(closed=(local(200, 300),), log_start_offset=200, local_log_start_offset=200, deleted_to=200)
        assert plan(enabled, NOW) == [Copy(local(200, 300))]

    def test_R6_untiered_topic_is_left_alone(self) -> None:
        left = remote(4, 0, 10, state=STARTED)
        untiered = view(
            remote=(*TIERED, left),
            policy=policy(TierMode.UNTIERED, retention_ms=0, local_retention_ms=0),
            log_start_offset=300,
        )
        assert plan(untiered, NOW) == []

    def test_R6_read_only_active_segment_that_breaches_is_rolled_by_the_leader(self) -> None:
        read_only = view(closed=(), log_start_offset=300, policy=policy(TierMode.READ_ONLY, local_retention_ms=0))
        assert plan(read_only, NOW) == [RollActive(300)]
        assert plan(changed(read_only, leader_epoch=None), NOW) == []
