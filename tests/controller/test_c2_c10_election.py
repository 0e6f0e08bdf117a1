"""C2: who leads when brokers come and go; C9: leaders of the past; C10: preferred leaders."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tierfetch.protocol.errors import ErrorCode

from .harness import CONFIG, Harness

UNCLEAN = {"unclean.leader.election.enable": "true"}
PREFERRED_ELECTION, UNCLEAN_ELECTION = 0, 1


@pytest.fixture
def cluster() -> Harness:
    harness = Harness()
    harness.start(1, 2, 3)
    return harness


def test_C2_a_live_member_of_the_isr_leads_and_the_isr_is_the_live_part(cluster: Harness) -> None:
    cluster.create("t", [1, 2, 3])
    cluster.expire(1, alive=[2, 3])
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.leader_epoch) == (2, (2, 3), 1)


def test_C2_a_replica_outside_of_the_isr_never_leads_silently(cluster: Harness) -> None:
    cluster.create("t", [1, 2, 3])
    cluster.alter_isr("t", [1])
    cluster.expire(1, alive=[2, 3])
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.leader_epoch) == (-1, (1,), 1)
    cluster.beat(2, 3)
    cluster.sleep(1)
    assert cluster.partition("t").leader == -1


def test_C2_nobody_leads_until_an_eligible_replica_returns(cluster: Harness) -> None:
    cluster.create("t", [1, 2])
    cluster.alter_isr("t", [1])
    cluster.expire(1, alive=[2, 3])
    cluster.heartbeat(1)
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.leader_epoch) == (1, (1,), 2), "lost once, elected once"


def test_C2_where_it_is_allowed_a_live_replica_is_elected_alone(cluster: Harness) -> None:
    cluster.create("t", [1, 2, 3], configs=UNCLEAN)
    cluster.alter_isr("t", [1])
    cluster.expire(1, alive=[2, 3])
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.leader_epoch, after.leader_recovery_state) == (2, (2,), 1, 1)


def test_C2_allowing_unclean_elections_elects_what_waits(cluster: Harness) -> None:
    cluster.create("t", [1, 2, 3])
    cluster.alter_isr("t", [1])
    cluster.expire(1, alive=[2, 3])
    assert cluster.configure(2, "t", unclean_leader_election_enable="true")["error_code"] is ErrorCode.none
    cluster.run_timers()
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (2, (2,))


@pytest.mark.parametrize(
    ("topic", "cluster_wide", "own", "elected"),
    [("false", "true", True, -1), (None, "true", False, 2), (None, "false", True, -1), (None, None, True, 2)],
)
def test_C2_the_topics_word_counts_before_the_clusters_and_the_controllers(
    topic: str | None, cluster_wide: str | None, own: bool, elected: int
) -> None:
    harness = Harness(replace(CONFIG, unclean_leader_election_enable=own))
    harness.start(1, 2)
    harness.create("t", [1, 2], configs={} if topic is None else {"unclean.leader.election.enable": topic})
    if cluster_wide is not None:
        harness.configure(4, "", unclean_leader_election_enable=cluster_wide)
    harness.alter_isr("t", [1])
    harness.expire(1, alive=[2])
    assert harness.partition("t").leader == elected


def test_C2_an_operator_elects_uncleanly_what_configs_forbid(cluster: Harness) -> None:
    cluster.create("t", [1, 2, 3])
    cluster.alter_isr("t", [1])
    assert cluster.elect("t", UNCLEAN_ELECTION)["error_code"] is ErrorCode.election_not_needed
    cluster.expire(1, alive=[2, 3])
    assert cluster.elect("t", UNCLEAN_ELECTION)["error_code"] is ErrorCode.none
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.leader_recovery_state) == (2, (2,), 1)
    assert cluster.alter_isr("t", [2, 3])["error_code"] is ErrorCode.none
    assert cluster.partition("t").leader_recovery_state == 0


def test_C2_an_election_without_anybody_says_so(cluster: Harness) -> None:
    cluster.create("t", [1])
    cluster.expire(1, alive=[2, 3])
    assert cluster.elect("t", UNCLEAN_ELECTION)["error_code"] is ErrorCode.eligible_leaders_not_available
    assert cluster.elect("t", UNCLEAN_ELECTION, partition=7)["error_code"] is ErrorCode.unknown_topic_or_partition


def test_C2_all_go_and_come_back_one_by_one(cluster: Harness) -> None:
    cluster.create("t", [1, 2, 3])
    cluster.expire(1, alive=[2, 3])
    cluster.expire(2, alive=[3])
    cluster.expire(3)
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (-1, (3,))
    cluster.beat(1, 2)
    assert cluster.partition("t").leader == -1
    cluster.beat(3)
    assert (cluster.partition("t").leader, cluster.partition("t").leader_epoch) == (3, 4)


def test_C2_a_smaller_isr_alone_leaves_the_leader_epoch(cluster: Harness) -> None:
    cluster.create("t", [1, 2, 3])
    cluster.expire(3, alive=[1, 2])
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.leader_epoch, after.partition_epoch) == (1, (1, 2), 0, 1)


def test_C9_a_leader_of_the_past_changes_nothing(cluster: Harness) -> None:
    cluster.create("t", [1, 2, 3])
    zombie = cluster.partition("t")
    cluster.expire(1, alive=[2, 3])
    cluster.heartbeat(1)
    before = cluster.partition("t")
    answer = cluster.alter_isr(
        "t", [1], broker_id=1, leader_epoch=zombie.leader_epoch, partition_epoch=zombie.partition_epoch
    )
    assert answer["error_code"] is ErrorCode.fenced_leader_epoch
    assert cluster.partition("t") == before


def test_C9_a_leader_that_missed_a_change_of_the_isr_changes_nothing(cluster: Harness) -> None:
    cluster.create("t", [1, 2, 3])
    stale = cluster.partition("t")
    cluster.expire(3, alive=[1, 2])
    answer = cluster.alter_isr("t", [1, 2, 3], partition_epoch=stale.partition_epoch)
    assert answer["error_code"] is ErrorCode.invalid_update_version


def test_C9_another_incarnation_of_a_leader_is_not_the_leader(cluster: Harness) -> None:
    cluster.create("t", [1, 2])
    epoch = cluster.epochs[1]
    cluster.expire(1, alive=[2, 3])
    cluster.register(1)
    answer = cluster.alter_isr("t", [1], broker_id=1, broker_epoch=epoch, leader_epoch=0, partition_epoch=0)
    assert answer["error_code"] is ErrorCode.stale_broker_epoch


def test_C10_the_timer_gives_the_lead_back_to_the_preferred_replica(cluster: Harness) -> None:
    cluster.create("t", [1, 2])
    cluster.expire(1, alive=[2, 3])
    cluster.heartbeat(1)
    cluster.alter_isr("t", [1, 2])
    assert cluster.partition("t").leader == 2
    cluster.now_ms += CONFIG.leader_imbalance_check_interval_ms
    cluster.beat(1, 2, 3)
    cluster.run_timers()
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.leader_epoch) == (1, (1, 2), 2)


def test_C10_balancing_goes_on_in_rounds_until_all_are_done() -> None:
    harness = Harness(replace(CONFIG, elections_per_imbalance_max=2))
    harness.start(1, 2)
    harness.create("t", *[[1, 2]] * 5)
    harness.expire(1, alive=[2])
    harness.heartbeat(1)
    for number in range(5):
        harness.alter_isr("t", [1, 2], partition=number)
    harness.now_ms += CONFIG.leader_imbalance_check_interval_ms
    harness.beat(1, 2)
    rounds = 0
    while harness.image.indexes.not_preferred:
        result = harness.core.fire(harness.moment)
        assert result is not None
        assert len(result.records) <= 2
        harness.take(result)
        rounds += 1
    assert rounds == 3


def test_C10_balancing_can_be_switched_off() -> None:
    harness = Harness(replace(CONFIG, auto_leader_rebalance_enable=False))
    harness.start(1, 2)
    harness.create("t", [1, 2])
    harness.expire(1, alive=[2])
    harness.heartbeat(1)
    harness.alter_isr("t", [1, 2])
    harness.now_ms += CONFIG.leader_imbalance_check_interval_ms
    harness.beat(1, 2)
    harness.run_timers()
    assert harness.partition("t").leader == 2


def test_C10_an_operator_asks_for_the_preferred_leader(cluster: Harness) -> None:
    cluster.create("t", [1, 2])
    assert cluster.elect("t", PREFERRED_ELECTION)["error_code"] is ErrorCode.election_not_needed
    cluster.expire(1, alive=[2, 3])
    assert cluster.elect("t", PREFERRED_ELECTION)["error_code"] is ErrorCode.preferred_leader_not_available
    cluster.heartbeat(1)
    refused = cluster.elect("t", PREFERRED_ELECTION)
    assert refused["error_code"] is ErrorCode.preferred_leader_not_available
    assert "not a live member of the ISR" in refused["error_message"]
    cluster.alter_isr("t", [1, 2])
    assert cluster.elect("t", PREFERRED_ELECTION)["error_code"] is ErrorCode.none
    assert cluster.partition("t").leader == 1


def test_C10_without_a_list_only_what_needs_it_is_named(cluster: Harness) -> None:
    from tierfetch.protocol.api import ApiKey

    cluster.create("t", [1, 2], [2, 1])
    cluster.expire(1, alive=[2, 3])
    cluster.heartbeat(1)
    for number in range(2):
        cluster.alter_isr("t", [1, 2], partition=number)
    response = cluster.ask(ApiKey.ELECT_LEADERS, {"election_type": 0, "timeout_ms": 1000, "topic_partitions": None})
    (topic,) = response["replica_election_results"]
    assert [item["partition_id"] for item in topic["partition_result"]] == [0]
    assert cluster.partition("t").leader == 1
    wrong = cluster.ask(ApiKey.ELECT_LEADERS, {"election_type": 9, "timeout_ms": 1000, "topic_partitions": None})
    assert wrong["error_code"] is ErrorCode.invalid_request
