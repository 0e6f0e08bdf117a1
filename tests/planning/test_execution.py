"""A plan carried out on a cluster that is changed, refuses, or under a process that dies: decisions only."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierfetch.model.core import Outlook
from tierfetch.planning.cluster_state import PartitionState, Placement, Standing, standing
from tierfetch.planning.execution import (
    Finish,
    Wait,
    expected_end,
    next_step,
    throttled_brokers,
    unforeseen,
    what_is_left,
)
from tierfetch.planning.journal import Entry, Header, JournalError, Outcome, line_of, parse_journal
from tierfetch.planning.plan_file import Roll
from tierfetch.planning.preflight import sizes_differ
from tierfetch.planning.throttling import DIRECTORY_RATE
from tierfetch.tests.planning.fake_cluster import Crash, FakeCluster, Run, T, entry

THREE_WAVES = [
    entry(0, (1, 2, 3), (4, 2, 3), wave=0),
    entry(1, (2, 1, 3), (2, 4, 3), wave=0),
    entry(2, (3, 1, 2), (3, 4, 2), wave=1),
    entry(3, (1, 3, 2), (2, 3, 4), wave=2, final=(4, 3, 2)),
]


def assert_done(cluster: FakeCluster, entries: list[Entry]) -> None:
    assert {key: part.replicas for key, part in cluster.partitions.items()} == {
        each.key: each.final for each in entries
    }
    assert not any(part.is_reassigning for part in cluster.partitions.values())
    assert cluster.configs == {}


def assert_as_before(cluster: FakeCluster, entries: list[Entry]) -> None:
    assert {key: part.replicas for key, part in cluster.partitions.items()} == {
        each.key: each.before for each in entries
    }
    assert not any(part.is_reassigning for part in cluster.partitions.values())
    assert cluster.configs == {}


def test_C6_a_plan_is_carried_out_wave_by_wave_under_its_throttle() -> None:
    cluster = FakeCluster.of(THREE_WAVES)
    run = Run(cluster, THREE_WAVES)
    assert run.process() == Finish(Outcome.DONE)
    assert_done(cluster, THREE_WAVES)
    assert cluster.most_moving == 2
    assert cluster.throttled_moves == 4
    assert {key: part.leader for key, part in cluster.partitions.items()} == {
        each.key: each.final[0] for each in THREE_WAVES
    }


def test_configs_that_were_there_before_are_put_back() -> None:
    cluster = FakeCluster.of(THREE_WAVES)
    mine = {
        ("topic", "t", "leader.replication.throttled.replicas"): "*",
        ("broker", "1", "leader.replication.throttled.rate"): "77",
    }
    cluster.configs = dict(mine)
    Run(cluster, THREE_WAVES).process()
    assert cluster.configs == mine


def test_leadership_waits_until_a_new_replica_is_warm() -> None:
    cluster = FakeCluster.of(THREE_WAVES)
    cluster.thin = {4}
    run = Run(cluster, THREE_WAVES)
    found = run.process()
    assert found.outcome is Outcome.DONE
    assert found.notes == ("t-3: broker 4 does not lead it yet, but 2",)
    assert run.now_ms > 60_000


LAST_STEP_EFFECTS = 42
"""After so many a resumed plan has begun to wait for new leaders."""


def test_what_is_left_is_what_the_plan_waits_for() -> None:
    cluster = FakeCluster.of(THREE_WAVES)
    cluster.thin = {4}
    run = Run(cluster, THREE_WAVES)

    def left() -> tuple[str, ...]:
        return what_is_left(run.journal, cluster.state(), run.now_ms)

    assert left() == ("2 partitions to be in sync on broker 4, without a limit",)
    assert run.process(ask_at=(1, "pause")).outcome is Outcome.PAUSED
    assert left() == ("t-2 to be in sync on broker 4, without a limit",), "what resume would begin"
    run.ask("resume")
    run.effects_left = LAST_STEP_EFFECTS
    with pytest.raises(Crash):
        run.process()
    waits_for = ("broker 4 to lead t-3, once warm, at most 60 s (--warm-timeout)",)
    assert left() == waits_for, "its process died in the last step"
    run.effects_left = 10**9
    assert run.process().outcome is Outcome.DONE
    assert left() == ("t-3: broker 4 does not lead it yet, but 2",)
    cluster.thin = set()
    cluster.elect(("t", 3))
    assert left() == ()


@pytest.mark.parametrize("ask", ["cancel", "roll_back"])
def test_nothing_is_left_of_a_plan_that_was_taken_back(ask: str) -> None:
    cluster = FakeCluster.of(THREE_WAVES)
    run = Run(cluster, THREE_WAVES)
    run.process(ask_at=(2, ask))
    assert what_is_left(run.journal, cluster.state(), run.now_ms) == ()


def test_F11_the_wait_for_warm_leaders_says_for_whom_and_how_long_and_resume_sets_another_limit() -> None:
    cluster = FakeCluster.of(THREE_WAVES)
    cluster.thin = {4}
    run = Run(cluster, THREE_WAVES)
    run.process()
    assert run.waits[-1] == "broker 4 to lead t-3, once warm, at most 60 s (--warm-timeout)"
    run.ask("resume", warm_wait_s=5.0)
    began_ms = run.now_ms
    run.process()
    assert run.waits[-1] == "broker 4 to lead t-3, once warm, at most 5 s (--warm-timeout)"
    assert 5_000 <= run.now_ms - began_ms < 30_000


def test_leaders_roll_and_upload_first() -> None:
    cluster = FakeCluster.of(THREE_WAVES)
    cluster.uploaded = {each.key: 50 for each in THREE_WAVES}
    roll = Roll(topics=("t",), segment_ms=1000, wait_max_s=30)
    run = Run(cluster, THREE_WAVES, roll=roll)
    actions = next_step(run.journal, cluster.state(), 0)
    assert [type(action).__name__ for action in actions] == ["Roll", "Wait"]
    assert run.process().outcome is Outcome.DONE
    assert run.waits[:2] == ["leaders to roll", "uploads of 4 partitions to catch up"]
    assert run.now_ms >= 30_000
    assert_done(cluster, THREE_WAVES)


def test_nothing_begins_once_paused_and_it_goes_on_when_resumed() -> None:
    cluster = FakeCluster.of(THREE_WAVES)
    run = Run(cluster, THREE_WAVES)
    assert run.process(ask_at=(1, "pause")).outcome is Outcome.PAUSED
    assert cluster.configs == {}
    moved = [key for key, part in cluster.partitions.items() if 4 in part.replicas]
    assert moved == [("t", 0), ("t", 1)]
    run.ask("resume")
    assert run.process().outcome is Outcome.DONE
    assert_done(cluster, THREE_WAVES)


def test_S2_a_throttle_that_only_resume_gives_is_taken_away_too() -> None:
    cluster = FakeCluster.of(THREE_WAVES)
    run = Run(cluster, THREE_WAVES, throttle=None)
    assert run.process(ask_at=(1, "pause")).outcome is Outcome.PAUSED
    before = Run(cluster, THREE_WAVES).journal.header.old_configs
    run.ask("resume", throttle_bytes_per_s=5, old_configs=before)
    assert run.process() == Finish(Outcome.DONE)
    assert cluster.throttled_moves == 2
    assert_done(cluster, THREE_WAVES)


def test_C6_cancel_takes_back_what_is_under_way_in_its_old_order() -> None:
    cluster = FakeCluster.of(THREE_WAVES, live={1, 2, 3, 4})
    run = Run(cluster, THREE_WAVES)
    run.process(ask_at=(1, "pause"))
    run.ask("resume")
    cluster.reassign(("t", 2), (3, 4, 2))
    run.ask("cancel")
    assert run.process().outcome is Outcome.CANCELLED
    assert cluster.partitions[("t", 0)].replicas == (4, 2, 3)
    assert cluster.partitions[("t", 2)].replicas == (3, 1, 2)
    assert cluster.configs == {}


def test_a_reassignment_that_is_taken_back_has_its_old_order_again() -> None:
    cluster = FakeCluster.of(THREE_WAVES)
    cluster.reassign(("t", 0), (4, 2, 3))
    run = Run(cluster, THREE_WAVES)
    run.ask("cancel")
    run.process()
    assert_as_before(cluster, THREE_WAVES)


def test_rollback_moves_everything_back() -> None:
    cluster = FakeCluster.of(THREE_WAVES)
    run = Run(cluster, THREE_WAVES)
    run.process()
    run.ask("roll_back")
    assert run.process() == Finish(Outcome.ROLLED_BACK)
    assert_as_before(cluster, THREE_WAVES)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (PartitionState(T, (5, 2, 3), (5, 2, 3), 5), "t-2: its replicas were changed meanwhile to [5, 2, 3]"),
        (PartitionState(T, (5, 3, 1), (3, 1), 3, (5,), (1,)), "t-2: another plan moves it to [5, 3]"),
        (PartitionState("another", (3, 1, 2), (3,), 3), "t-2: it was deleted"),
        (None, "t-2: it was deleted"),
    ],
)
def test_a_cluster_that_somebody_else_changes_stops_the_plan_by_name(
    found: PartitionState | None, message: str
) -> None:
    cluster = FakeCluster.of(THREE_WAVES)
    run = Run(cluster, THREE_WAVES)
    run.process(ask_at=(1, "pause"))
    if found is None:
        del cluster.partitions["t", 2]
    else:
        cluster.partitions["t", 2] = found
    run.ask("resume")
    finish = run.process()
    assert finish.outcome is Outcome.STOPPED
    assert [problem[: len(message)] for problem in finish.problems] == [message]
    assert cluster.partitions["t", 3].replicas == (1, 3, 2), "nothing was begun"
    assert cluster.configs == {}
    run.ask("resume", skipped=[("t", 2)])
    assert run.process().outcome is Outcome.DONE
    assert cluster.partitions["t", 3].replicas == (4, 3, 2)
    assert cluster.partitions.get(("t", 2)) == found


def test_a_wave_does_not_begin_while_a_target_is_dead() -> None:
    cluster = FakeCluster.of(THREE_WAVES, live={1, 2, 3})
    finish = Run(cluster, THREE_WAVES).process()
    assert finish.outcome is Outcome.STOPPED
    assert finish.problems == (
        "t-0: broker 4 will hold a replica, and is not alive",
        "t-1: broker 4 will hold a replica, and is not alive",
    )
    assert_as_before(cluster, THREE_WAVES)


def test_who_dies_meanwhile_is_named() -> None:
    cluster = FakeCluster.of(THREE_WAVES)
    cluster.reassign(("t", 0), (4, 2, 3))
    cluster.live.discard(4)
    actions = next_step(Run(cluster, THREE_WAVES[:1]).journal, cluster.state(), 0)
    assert actions[-1] == Wait("t-0: broker 4 is not alive")


def test_what_the_controller_refuses_leaves_no_half_wave() -> None:
    cluster = FakeCluster.of(THREE_WAVES)
    cluster.refusals[("t", 1)] = "t-1: no"
    run = Run(cluster, THREE_WAVES)
    finish = run.process()
    assert finish == Finish(Outcome.STOPPED, ("t-1: no",))
    assert_as_before(cluster, THREE_WAVES)
    cluster.refusals.clear()
    run.ask("resume")
    assert run.process().outcome is Outcome.DONE


def test_an_order_that_the_controller_refuses_does_not_keep_a_cancel_from_its_end() -> None:
    cluster = FakeCluster.of(THREE_WAVES)
    cluster.reassign(("t", 0), (4, 2, 3))
    cluster.refusals["t", 0] = "t-0: no"
    run = Run(cluster, THREE_WAVES)
    run.ask("cancel")
    finish = run.process()
    assert finish == Finish(Outcome.CANCELLED, notes=("it is not as it was before: t-0: no",))
    assert set(cluster.partitions["t", 0].replicas) == {1, 2, 3}
    assert cluster.configs == {}
    cluster.refusals.clear()
    run.ask("cancel")
    assert run.process() == Finish(Outcome.CANCELLED)
    assert_as_before(cluster, THREE_WAVES)


@pytest.mark.parametrize("how", ["pause", "stop", "crash"])
def test_resume_goes_on_with_a_rollback(how: str) -> None:
    cluster = FakeCluster.of(THREE_WAVES)
    run = Run(cluster, THREE_WAVES)
    run.process()
    run.ask("roll_back")
    if how == "pause":
        assert run.process(ask_at=(1, "pause")).outcome is Outcome.PAUSED
    elif how == "stop":
        cluster.live.discard(1)
        assert run.process().outcome is Outcome.STOPPED
        cluster.live.add(1)
    else:
        run.effects_left = 14
        with pytest.raises(Crash):
            run.process()
        run.effects_left = 10**9
    run.ask("resume")
    assert run.process() == Finish(Outcome.ROLLED_BACK)
    assert_as_before(cluster, THREE_WAVES)
    run.ask("resume")
    assert run.process() == Finish(Outcome.ROLLED_BACK), "what has ended stays as it is"
    assert_as_before(cluster, THREE_WAVES)


@pytest.mark.parametrize(
    ("ask", "outcome"), [(None, Outcome.DONE), ("cancel", Outcome.CANCELLED), ("roll_back", Outcome.ROLLED_BACK)]
)
def test_to_resume_a_plan_that_has_ended_does_nothing(ask: str | None, outcome: Outcome) -> None:
    cluster = FakeCluster.of(THREE_WAVES)
    run = Run(cluster, THREE_WAVES)
    assert run.process(ask_at=(1, ask) if ask else None).outcome is outcome
    before = dict(cluster.partitions)
    run.ask("resume")
    assert run.process() == Finish(outcome)
    assert cluster.partitions == before
    assert cluster.configs == {}


# --- how long it takes ------------------------------------------------------------------------------------------------

OUTLOOK = Outlook(
    system="tierfetch", low_s=80, median_s=100, high_s=120, machine_s=50, throttle_bytes_per_s=1_000_000, effects=()
)


def foreseen(throttle: int | None = 1_000_000, dead: tuple[int, ...] = ()) -> Run:
    run = Run(FakeCluster.of(THREE_WAVES), THREE_WAVES, throttle=throttle)
    header, *rest = run.data.split(b"\n", 1)
    found = Header.model_validate_json(header).model_copy(update={"outlook": OUTLOOK, "dead": dead})
    run.data = line_of(found) + b"".join(rest)
    run.ask("started")
    return run


def test_the_end_is_corrected_by_what_is_done() -> None:
    run = foreseen()
    found = expected_end(run.journal, run.cluster.state(), 0.5, 50_000)
    assert found is not None
    assert found.end.median == pytest.approx(100.0)
    assert found.broken == ""
    late = expected_end(run.journal, run.cluster.state(), 0.4, 50_000)
    assert late is not None
    assert late.end.median > 100.0
    assert expected_end(Run(run.cluster, THREE_WAVES).journal, run.cluster.state(), 0.5, 50_000) is None


def test_a_broker_that_dies_during_the_move_breaks_the_prediction_by_name() -> None:
    run = foreseen()
    run.cluster.live.discard(4)
    found = expected_end(run.journal, run.cluster.state(), 0.5, 50_000)
    assert found is not None
    assert found.broken == "broker 4 is not alive"
    assert found.end.widest == "broker 4 is not alive"


def test_a_plan_that_empties_a_dead_broker_is_carried_out_as_predicted() -> None:
    run = foreseen(dead=(1,))
    run.cluster.live.discard(1)
    assert unforeseen(run.journal, run.cluster.state()) == []
    run.cluster.live.discard(4)
    assert unforeseen(run.journal, run.cluster.state()) == ["broker 4 is not alive"]


def test_a_cluster_that_is_not_as_the_inventory_said_breaks_the_prediction() -> None:
    """Replicas that are in place already are not moved again: fewer moves than were predicted."""
    run = foreseen()
    for moves, expected in ((4, []), (7, ["it was predicted for 7 replicas, and there are 4"])):
        header, *rest = run.data.split(b"\n", 1)
        outlook = OUTLOOK.model_copy(update={"moves": moves})
        found = Header.model_validate_json(header).model_copy(update={"outlook": outlook})
        run.data = line_of(found) + b"".join(rest)
        assert unforeseen(run.journal, run.cluster.state()) == expected
    late = expected_end(run.journal, run.cluster.state(), 0.5, 50_000)
    assert late is not None
    assert late.broken == late.end.widest == "it was predicted for 7 replicas, and there are 4"


def test_another_throttle_than_the_predicted_one_breaks_the_prediction() -> None:
    run = foreseen(throttle=2_000_000)
    (said,) = unforeseen(run.journal, run.cluster.state())
    assert said == "it was predicted for a throttle of 977 KiB/s, and there is a throttle of 1.9 MiB/s"
    changed = foreseen()
    changed.ask("resume", throttle_bytes_per_s=500_000)
    found = expected_end(changed.journal, changed.cluster.state(), 0.5, 50_000)
    assert found is not None
    assert found.broken.startswith("the throttle was changed while it ran; it was predicted for")


def test_a_throttle_that_another_client_has_set_breaks_the_prediction_while_the_wave_runs() -> None:
    run = foreseen()
    state = replace(run.cluster.state(), throttles={1: (1_000_000, 1_000_000), 4: (1_000_000, 5), 9: (None, None)})
    assert unforeseen(run.journal, state) == [], "none is set yet"
    run.ask("throttled", wave=0)
    assert throttled_brokers(run.journal) == [1, 2, 3, 4]
    assert unforeseen(run.journal, state) == ["another client has changed the throttle of broker 4"]
    gone = replace(state, throttles={1: (None, 1_000_000), 4: (1_000_000, 1_000_000)})
    assert unforeseen(run.journal, gone) == ["another client has changed the throttle of broker 1"]
    run.ask("restored")
    assert unforeseen(run.journal, state) == []


def test_sizes_that_differed_at_the_start_break_the_prediction_from_then_on() -> None:
    run = foreseen()
    header, *rest = run.data.split(b"\n", 1)
    found = Header.model_validate_json(header).model_copy(update={"differs": ("leaders hold more",)})
    run.data = line_of(found) + b"".join(rest)
    late = expected_end(run.journal, run.cluster.state(), 0.5, 50_000)
    assert late is not None
    assert late.broken == late.end.widest == "leaders hold more"


def test_sizes_differ_where_that_adds_up() -> None:
    gib = 1 << 30
    planned = {("t", number): gib for number in range(10)}
    assert sizes_differ(planned, planned) == ""
    assert sizes_differ(planned, {key: int(1.05 * size) for key, size in planned.items()}) == "", "producers write"
    assert sizes_differ({("t", 0): 1000}, {("t", 0): 9000}) == "", "too little to matter"
    assert sizes_differ(planned, {("other", 0): gib}) == "", "nobody knows"
    apart = {("t", number): size for number, size in enumerate((3 * gib, 2 * gib, gib, gib // 2, gib // 4))}
    assert sizes_differ(planned, apart) == (
        "leaders hold 6.8 GiB where it was predicted for 5.0 GiB (t-0 3.0 GiB for 1.0 GiB, t-1 2.0 GiB for 1.0 GiB,"
        " t-4 256 MiB for 1.0 GiB, 1 more)"
    )


def test_the_time_between_two_processes_does_not_count() -> None:
    run = foreseen()
    run.now_ms = 10_000
    run.ask("ended", outcome=Outcome.PAUSED)
    assert run.journal.running_s(99_000) == 10.0
    run.now_ms = 50_000
    run.ask("resume")
    run.ask("started")
    assert run.journal.running_s(60_000) == 20.0


def test_configs_of_a_topic_that_took_the_name_of_one_of_the_plan_are_left_alone() -> None:
    cluster = FakeCluster.of(THREE_WAVES)
    run = Run(cluster, THREE_WAVES)
    run.process(ask_at=(1, "pause"))
    for key, part in cluster.partitions.items():
        cluster.partitions[key] = replace(part, topic_id="another")
    own = {("topic", "t", "segment.ms"): "77"}
    cluster.configs = dict(own)
    run.ask("resume")
    assert run.process().outcome is Outcome.STOPPED
    assert cluster.configs == own


def test_a_partition_without_leader_is_named() -> None:
    cluster = FakeCluster.of(THREE_WAVES)
    cluster.partitions["t", 1] = replace(cluster.partitions["t", 1], leader=-1)
    finish = Run(cluster, THREE_WAVES).process()
    assert finish.problems == ("t-1: it has no leader, so nothing can be copied: elect one first",)


@pytest.mark.parametrize(
    ("replicas", "adding", "removing", "expected"),
    [
        ((1, 2, 3), (), (), Standing.BEFORE),
        ((2, 3, 1), (), (), Standing.BEFORE),
        ((4, 2, 3, 1), (4,), (1,), Standing.MOVING),
        ((2, 3, 4, 1), (), (), Standing.MOVING),
        ((2, 3, 4), (), (), Standing.DONE),
        ((4, 2, 3), (), (), Standing.DONE),
        ((1, 2, 3, 4), (1,), (4,), Standing.RETURNING),
        ((1, 2, 3, 4), (), (), Standing.RETURNING),
        ((5, 2, 3), (), (), Standing.FOREIGN),
        ((5, 2, 3, 1), (5,), (1,), Standing.FOREIGN),
    ],
)
def test_whose_move_it_is_can_be_read_off_the_partition(replicas, adding, removing, expected) -> None:
    planned = entry(0, (1, 2, 3), (2, 3, 4), final=(4, 2, 3))
    cluster = FakeCluster({("t", 0): PartitionState(T, replicas, (1,), 1, adding, removing)}, {1, 2, 3, 4})
    assert standing(planned, T, cluster.state()) is expected


def test_a_torn_last_line_is_left_out() -> None:
    run = Run(FakeCluster.of(THREE_WAVES), THREE_WAVES)
    run.ask("cancel")
    whole = run.journal
    assert parse_journal(run.data + b'{"event": "resu', "j") == whole
    with pytest.raises(JournalError, match=r"j: line 3: event: "):
        parse_journal(run.data + b'{"event": "?", "at_ms": 0}\n', "j")
    with pytest.raises(JournalError, match="torn by a crash"):
        parse_journal(run.data[:10], "j")


# --- log directories --------------------------------------------------------------------------------------------------

TO_B = ((1, "/b"),)
FROM_A = ((1, "/a"), (2, "/a"))


def directories(cluster: FakeCluster) -> dict[tuple[int, int], str]:
    return {
        (key[1], broker): cluster.placement(key, broker).directory
        for key, part in cluster.partitions.items()
        for broker in part.replicas
    }


def test_D4_a_replica_moves_between_log_directories_under_the_throttle() -> None:
    entries = [entry(0, (1, 2), (1, 2), directories=TO_B, directories_before=FROM_A)]
    cluster = FakeCluster.of(entries)
    run = Run(cluster, entries, throttle=77)
    rates = []
    advance = cluster.advance
    cluster.advance = lambda: (rates.append(cluster.configs.get(("broker", "1", DIRECTORY_RATE))), advance())  # type: ignore[method-assign,func-returns-value]
    assert run.process() == Finish(Outcome.DONE)
    assert directories(cluster) == {(0, 1): "/b", (0, 2): "/a"}
    assert rates[0] == "77"
    assert cluster.configs == {}
    assert cluster.directory_requests == 1


def test_D4_a_replica_that_comes_is_created_in_its_log_directory_at_once() -> None:
    entries = [entry(0, (1, 2), (3, 2), directories=((3, "/c"), (2, "/b")), directories_before=FROM_A)]
    cluster = FakeCluster.of(entries)
    assert Run(cluster, entries).process() == Finish(Outcome.DONE)
    assert directories(cluster) == {(0, 3): "/c", (0, 2): "/b"}
    assert cluster.directory_requests == 2


def test_D4_a_log_directory_that_a_broker_refuses_stops_the_plan_by_name() -> None:
    entries = [
        entry(0, (1, 2), (1, 2), directories=TO_B, directories_before=FROM_A),
        entry(1, (1, 2), (1, 2), directories=((1, "/bad"),), directories_before=FROM_A),
    ]
    cluster = FakeCluster.of(entries)
    cluster.bad_directories = {"/bad"}
    assert Run(cluster, entries).process() == Finish(Outcome.STOPPED, ("no /bad",))
    assert directories(cluster) == {(0, 1): "/a", (0, 2): "/a", (1, 1): "/a", (1, 2): "/a"}
    assert all(found.future is None for found in cluster.placements.values())
    assert cluster.configs == {}


@pytest.mark.parametrize(("ask", "ends"), [("cancel", Outcome.CANCELLED), ("roll_back", Outcome.ROLLED_BACK)])
def test_D4_a_move_between_log_directories_is_taken_back(ask: str, ends: Outcome) -> None:
    entries = [entry(0, (1, 2), (1, 2), directories=TO_B, directories_before=FROM_A)]
    cluster = FakeCluster.of(entries)
    run = Run(cluster, entries)
    cluster.placements[("t", 0), 1] = Placement("/a", "/b")
    run.ask(ask)
    assert run.process().outcome is ends
    assert cluster.placement(("t", 0), 1) == Placement("/a")


def test_D4_rollback_moves_replicas_back_to_their_log_directories() -> None:
    entries = [
        entry(0, (1, 2), (1, 2), directories=TO_B, directories_before=FROM_A),
        entry(1, (1, 2), (3, 2), directories=((2, "/b"),), directories_before=((1, "/b"), (2, "/a"))),
    ]
    cluster = FakeCluster.of(entries)
    cluster.placements[("t", 1), 1] = Placement("/b")
    run = Run(cluster, entries)
    assert run.process().outcome is Outcome.DONE
    run.ask("roll_back")
    assert run.process() == Finish(Outcome.ROLLED_BACK)
    assert directories(cluster) == {(0, 1): "/a", (0, 2): "/a", (1, 1): "/b", (1, 2): "/a"}
    assert_as_before(cluster, entries)


def test_D4_a_broker_that_does_not_say_where_its_replica_is_is_waited_for_by_name() -> None:
    entries = [entry(0, (1, 2), (1, 2), directories=TO_B, directories_before=FROM_A)]
    run = Run(FakeCluster.of(entries, live={2}), entries)
    last = next_step(run.journal, run.cluster.state(), 0)[-1]
    assert last == Wait("broker 1 to say where its replica of t-0 is", 5.0)


# --- any crash --------------------------------------------------------------------------------------------------------


@st.composite
def plans(draw: st.DrawFn) -> list[Entry]:
    entries = []
    for partition in range(draw(st.integers(1, 5))):
        before = tuple(draw(st.permutations(range(1, 6)))[:3])
        target = tuple(draw(st.permutations(range(1, 6)))[:3])
        final = tuple(draw(st.permutations(target)))
        if before in (target, final):
            continue
        paths = st.sampled_from(["/a", "/b"])
        named = tuple((broker, draw(paths)) for broker in target if draw(st.booleans()))
        was = tuple((broker, "/a") for broker in before) if named else ()
        wave = draw(st.integers(0, 2))
        fields = {"final": final, "directories": named, "directories_before": was}
        entries.append(entry(partition, before, target, wave=wave, **fields))
    return entries


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(
    plan=plans().filter(bool),
    crashes=st.lists(st.integers(0, 40), max_size=4),
    end=st.sampled_from([None, "cancel", "roll_back"]),
    has_throttle=st.booleans(),
    has_roll=st.booleans(),
)
def test_C6_from_any_crash_it_ends_at_the_target_or_where_it_began(plan, crashes, end, has_throttle, has_roll) -> None:
    cluster = FakeCluster.of(plan)
    roll = Roll(topics=("t",), segment_ms=1000, wait_max_s=3) if has_roll else None
    run = Run(cluster, plan, throttle=1000 if has_throttle else None, roll=roll)
    for effects in crashes:
        run.effects_left = effects
        try:
            run.process()
        except Crash:
            cluster.advance()
    run.effects_left = 10**9
    if end is not None:
        run.ask(end)
    finish = run.process()
    assert not finish.problems
    if end is None:
        assert finish.outcome is Outcome.DONE
        assert_done(cluster, plan)
        assert all(
            cluster.placement(each.key, broker).directory == path for each in plan for broker, path in each.directories
        )
    elif end == "roll_back":
        assert finish.outcome is Outcome.ROLLED_BACK
        assert_as_before(cluster, plan)
        assert all(
            cluster.placement(each.key, broker).directory == path
            for each in plan
            for broker, path in each.directories_before
        )
    else:
        assert finish.outcome is Outcome.CANCELLED
        ends = {each.key: (each.before, each.target, each.final) for each in plan}
        assert all(part.replicas in ends[key] for key, part in cluster.partitions.items())
        assert cluster.configs == {}


@pytest.mark.parametrize("effects", range(60))
def test_C6_killed_after_each_effect(effects: int) -> None:
    cluster = FakeCluster.of(THREE_WAVES)
    run = Run(cluster, THREE_WAVES)
    run.effects_left = effects
    try:
        run.process()
    except Crash:
        run.effects_left = 10**9
        assert run.process().outcome is Outcome.DONE
    assert_done(cluster, THREE_WAVES)
