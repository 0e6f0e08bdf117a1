"""C10: a broker that is back gets its leaderships back before the balancing timer is due, once between two rounds."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from tierfetch.controller.core.leader_returns import LeaderReturns
from tierfetch.controller.image.registrations import PartitionKey
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode

from .harness import CONFIG, Harness
from .test_f_features_thin import TIERED, report, thin_item

KEYS = [PartitionKey(UUID(int=5), number) for number in range(3)]
DELAY_MS = CONFIG.session_timeout_ms


def test_C10_what_waits_is_taken_after_the_delay_so_many_at_a_time() -> None:
    returns = LeaderReturns()
    assert (returns.deadline_ms(), returns.take(5, 100, 2)) == (None, [])
    for key in KEYS:
        returns.note(key)
    assert returns.deadline_ms() == 0
    assert returns.take(1_000, 100, 2) == []
    assert returns.deadline_ms() == 1_100
    assert returns.take(1_099, 100, 2) == []
    assert returns.take(1_100, 100, 2) == KEYS[:2]
    assert returns.take(1_100, 100, 2) == KEYS[2:]
    assert returns.deadline_ms() is None


def test_C10_a_partition_comes_back_early_once_between_two_rounds_of_the_timer() -> None:
    returns = LeaderReturns()
    returns.note(KEYS[0])
    returns.take(0, 100, 2)
    assert returns.take(100, 100, 2) == KEYS[:1]
    returns.returned(KEYS[:1])
    returns.note(KEYS[0])
    assert returns.deadline_ms() is None
    returns.balanced()
    returns.note(KEYS[0])
    assert returns.take(200, 100, 2) == []
    assert returns.take(300, 100, 2) == KEYS[:1]


@pytest.fixture
def cluster() -> Harness:
    """Broker 1 leads what it is preferred for, and is unregistered although it lives."""
    harness = Harness()
    harness.start(1, 2, 3)
    harness.create("t", [1, 2], [1, 3], [2, 3])
    return harness


def come_back(cluster: Harness) -> None:
    cluster.ask(ApiKey.UNREGISTER_BROKER, {"broker_id": 1})
    assert [cluster.partition("t", number).leader for number in range(3)] == [2, 3, 2]
    cluster.start(1)
    cluster.alter_isr("t", [1, 2], partition=0)
    cluster.alter_isr("t", [1, 3], partition=1)
    cluster.run_timers()


def pass_time(cluster: Harness, duration_ms: int) -> None:
    """All brokers beat."""
    while duration_ms > 0:
        cluster.sleep(min(duration_ms, 2_000))
        cluster.beat(1, 2, 3)
        duration_ms -= 2_000


def test_C10_a_broker_that_registers_again_gets_its_leaderships_back(cluster: Harness) -> None:
    come_back(cluster)
    cluster.beat(1, 2, 3)
    cluster.sleep(DELAY_MS - 1)
    assert [cluster.partition("t", number).leader for number in range(3)] == [2, 3, 2]
    cluster.beat(1, 2, 3)
    cluster.sleep(1)
    assert [cluster.partition("t", number).leader for number in range(3)] == [1, 1, 2]


def test_C10_a_broker_that_flaps_gets_them_back_by_the_timer(cluster: Harness) -> None:
    come_back(cluster)
    pass_time(cluster, DELAY_MS + 2_000)
    assert cluster.partition("t").leader == 1
    come_back(cluster)
    pass_time(cluster, DELAY_MS + 2_000)
    assert cluster.partition("t").leader == 2
    pass_time(cluster, CONFIG.leader_imbalance_check_interval_ms)
    assert cluster.partition("t").leader == 1
    come_back(cluster)
    pass_time(cluster, DELAY_MS + 2_000)
    assert cluster.partition("t").leader == 1, "the timer has been round"


def test_C10_nothing_comes_back_where_leaders_are_not_balanced() -> None:
    cluster = Harness(replace(CONFIG, auto_leader_rebalance_enable=False))
    cluster.start(1, 2, 3)
    cluster.create("t", [1, 2], [1, 3], [2, 3])
    come_back(cluster)
    pass_time(cluster, 2 * DELAY_MS)
    assert cluster.partition("t").leader == 2


def test_C10_what_is_gone_by_then_is_passed_over(cluster: Harness) -> None:
    come_back(cluster)
    cluster.ask(ApiKey.DELETE_TOPICS, {"topics": [{"name": "t", "topic_id": None}], "timeout_ms": 1000})
    pass_time(cluster, DELAY_MS + 2_000)
    assert "t" not in cluster.image.topic_ids


def test_F11_a_replica_that_has_warmed_gets_its_place() -> None:
    cluster = Harness()
    cluster.start(1, 2, 3)
    cluster.create("t", [1, 2], configs=TIERED)
    cluster.heartbeat(1, want_fence=True)
    cluster.heartbeat(1)
    cluster.alter_isr("t", [1, 2])
    for _ in range(10):
        report(cluster, 1, thin_item(cluster))
        cluster.beat(2, 3)
        cluster.sleep(2_000)
    assert cluster.partition("t").leader == 2
    assert cluster.elect("t", 0)["error_code"] is ErrorCode.preferred_leader_not_available
    pass_time(cluster, DELAY_MS + 4_000)
    assert cluster.partition("t").leader == 1
