"""C6: replicas move; C5: a controller that takes over keeps every decision and goes on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.controller.core.reassignment_replicas import ReplicaTarget, begin, complete, revert
from tierfetch.controller.image.registrations import PartitionRegistration
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode

from .harness import Harness, directory, same


@pytest.fixture
def cluster() -> Harness:
    harness = Harness()
    harness.start(1, 2, 3, 4, 5, 6)
    return harness


def lists(cluster: Harness, name: str = "t") -> dict[str, Any]:
    now = cluster.partition(name)
    return {
        "replicas": now.replicas,
        "adding": now.adding_replicas,
        "removing": now.removing_replicas,
        "isr": now.isr,
        "leader": now.leader,
    }


def test_C6_new_replicas_are_added_first_and_old_ones_go_last(cluster: Harness) -> None:
    cluster.create("t", [1, 2, 3])
    assert cluster.reassign("t", [4, 2, 5])["error_code"] is ErrorCode.none
    assert lists(cluster) == {
        "replicas": (4, 2, 5, 1, 3),
        "adding": (4, 5),
        "removing": (1, 3),
        "isr": (1, 2, 3),
        "leader": 1,
    }
    assert cluster.partition("t").leader_epoch == 0, "nothing was taken off the list yet"
    cluster.alter_isr("t", [1, 2, 3, 4])
    assert cluster.partition("t").is_reassigning
    answer = cluster.alter_isr("t", [1, 2, 3, 4, 5])
    assert answer["error_code"] is ErrorCode.new_leader_elected
    assert lists(cluster) == {"replicas": (4, 2, 5), "adding": (), "removing": (), "isr": (4, 2, 5), "leader": 4}
    assert cluster.partition("t").leader_epoch == 1
    assert cluster.partition("t").directories == (directory(4), directory(2), directory(5))


def test_C6_a_leader_that_stays_leads_under_a_new_epoch_once_replicas_are_gone(cluster: Harness) -> None:
    cluster.create("t", [1, 2])
    cluster.reassign("t", [1, 3])
    answer = cluster.alter_isr("t", [1, 2, 3])
    assert (answer["error_code"], answer["leader_id"], answer["leader_epoch"]) == (ErrorCode.none, 1, 1)
    assert cluster.partition("t").isr == (1, 3)


def test_C6_without_new_replicas_it_is_done_at_once(cluster: Harness) -> None:
    cluster.create("t", [1, 2, 3])
    assert cluster.reassign("t", [3, 1])["error_code"] is ErrorCode.none
    assert lists(cluster) == {"replicas": (3, 1), "adding": (), "removing": (), "isr": (1, 3), "leader": 1}
    assert cluster.partition("t").leader_epoch == 1


def test_C6_the_same_replicas_change_nothing(cluster: Harness) -> None:
    cluster.create("t", [1, 2, 3])
    before = len(cluster.log)
    assert cluster.reassign("t", [1, 2, 3])["error_code"] is ErrorCode.none
    assert len(cluster.log) == before
    cluster.reassign("t", [2, 1, 3])
    assert cluster.partition("t").preferred_leader == 2, "another order, another preferred leader"


def test_C6_it_ends_also_when_a_broker_that_goes_was_the_last_obstacle(cluster: Harness) -> None:
    cluster.create("t", [1, 2])
    cluster.reassign("t", [3, 4])
    cluster.alter_isr("t", [1, 2, 3])
    cluster.expire(1, alive=[2, 3, 4, 5, 6])
    assert cluster.partition("t").is_reassigning
    assert cluster.partition("t").leader in (2, 3)
    cluster.alter_isr("t", [2, 3, 4])
    assert cluster.partition("t").replicas == (3, 4)


def test_C6_cancelling_restores_what_was(cluster: Harness) -> None:
    cluster.create("t", [1, 2])
    cluster.reassign("t", [3, 4])
    cluster.alter_isr("t", [1, 2, 3])
    assert cluster.reassign("t", None)["error_code"] is ErrorCode.none
    assert lists(cluster) == {"replicas": (1, 2), "adding": (), "removing": (), "isr": (1, 2), "leader": 1}
    assert cluster.reassign("t", None)["error_code"] is ErrorCode.no_reassignment_in_progress


def test_C6_cancelling_that_would_lose_data_is_refused(cluster: Harness) -> None:
    cluster.create("t", [1, 2])
    cluster.reassign("t", [3, 4])
    cluster.alter_isr("t", [1, 2, 3])
    cluster.expire(2, alive=[1, 3, 4, 5, 6])
    cluster.expire(1, alive=[3, 4, 5, 6])
    assert cluster.partition("t").isr == (3,)
    refused = cluster.reassign("t", None)
    assert refused["error_code"] is ErrorCode.invalid_replica_assignment
    assert "loses data" in refused["error_message"]
    cluster.configure(2, "t", unclean_leader_election_enable="true")
    cluster.heartbeat(1)
    assert cluster.reassign("t", None)["error_code"] is ErrorCode.none
    assert lists(cluster) == {"replicas": (1, 2), "adding": (), "removing": (), "isr": (1,), "leader": 1}


def test_C6_a_second_reassignment_replaces_the_first(cluster: Harness) -> None:
    cluster.create("t", [1, 2])
    cluster.reassign("t", [3, 4])
    cluster.alter_isr("t", [1, 2, 3])
    assert cluster.reassign("t", [3, 5])["error_code"] is ErrorCode.none
    assert lists(cluster) == {
        "replicas": (3, 5, 1, 2),
        "adding": (3, 5),
        "removing": (1, 2),
        "isr": (3, 1, 2),
        "leader": 1,
    }
    cluster.alter_isr("t", [1, 2, 3, 5])
    assert cluster.partition("t").replicas == (3, 5)


def test_C6_twice_in_one_request_is_refused(cluster: Harness) -> None:
    cluster.create("t", [1, 2])
    items = [{"partition_index": 0, "replicas": [3, 4]}, {"partition_index": 0, "replicas": [5, 6]}]
    response = cluster.ask(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS, {"timeout_ms": 1, "topics": [{"name": "t", "partitions": items}]}
    )
    codes = [answer["error_code"] for answer in response["responses"][0]["partitions"]]
    assert codes == [ErrorCode.none, ErrorCode.invalid_request]
    assert cluster.partition("t").adding_replicas == (3, 4)


@pytest.mark.parametrize(
    ("name", "replicas", "code"),
    [
        ("x", [1], ErrorCode.unknown_topic_or_partition),
        ("t", [], ErrorCode.invalid_replica_assignment),
        ("t", [3, 3], ErrorCode.invalid_replica_assignment),
        ("t", [3, 99], ErrorCode.invalid_replica_assignment),
        ("t", None, ErrorCode.no_reassignment_in_progress),
    ],
)
def test_C6_reassignments_that_are_refused(cluster: Harness, name: str, replicas: Any, code: ErrorCode) -> None:
    cluster.create("t", [1, 2])
    answer = cluster.reassign(name, replicas)
    assert answer["error_code"] is code
    assert answer["error_message"]


def test_C6_another_number_of_replicas_only_where_it_is_allowed(cluster: Harness) -> None:
    cluster.create("t", [1, 2])
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "replicas": [1, 2, 3]}]}]
    values = {"timeout_ms": 1, "topics": topics}
    refused = cluster.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, {**values, "allow_replication_factor_change": False}, 1)
    code = refused["responses"][0]["partitions"][0]["error_code"]
    assert code is ErrorCode.invalid_replication_factor
    allowed = cluster.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, values, 0)
    assert allowed["responses"][0]["partitions"][0]["error_code"] is ErrorCode.none


def test_C6_what_is_under_way_is_listed(cluster: Harness) -> None:
    cluster.create("t", [1, 2], [2, 1])
    cluster.create("u", [1, 2])
    cluster.reassign("t", [3, 4], partition=1)
    for asked in (None, [{"name": "t", "partition_indexes": [0, 1, 9]}, {"name": "x", "partition_indexes": [0]}]):
        response = cluster.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, {"timeout_ms": 1, "topics": asked})
        (topic,) = response["topics"]
        (partition,) = topic["partitions"]
        assert (topic["name"], partition["partition_index"]) == ("t", 1)
        assert (partition["adding_replicas"], partition["removing_replicas"]) == ([3, 4], [2, 1])


def test_C5_every_decision_survives_a_failover_of_the_controller(cluster: Harness) -> None:
    cluster.create("t", [1, 2, 3], configs={"retention.ms": "5000"})
    cluster.reassign("t", [4, 2, 5])
    cluster.alter_isr("t", [1, 2, 3, 4])
    cluster.expire(3, alive=[1, 2, 4, 5, 6])
    cluster.configure(4, "", follower_fetch_last_tiered_offset_enable="true")
    cluster.set_feature("tierfetch.version", 1)
    before = cluster.image
    cluster.failover()
    assert cluster.image is not before
    assert same(cluster.image, before)


def test_C5_an_unfinished_reassignment_goes_on_under_the_next_controller(cluster: Harness) -> None:
    cluster.create("t", [1, 2])
    cluster.reassign("t", [3, 4])
    cluster.failover()
    cluster.alter_isr("t", [1, 2, 3])
    cluster.failover()
    cluster.alter_isr("t", [1, 2, 3, 4])
    assert cluster.partition("t").replicas == (3, 4)
    assert not cluster.image.indexes.reassigning


def test_C5_an_election_that_was_due_is_held_by_the_next_controller(cluster: Harness) -> None:
    cluster.create("t", [1, 2])
    cluster.alter_isr("t", [1])
    cluster.expire(1, alive=[2, 3, 4, 5, 6])
    cluster.configure(2, "t", unclean_leader_election_enable="true")
    cluster.failover()
    assert cluster.partition("t").leader == 2


def test_C5_a_broker_that_died_with_the_controller_is_found(cluster: Harness) -> None:
    cluster.create("t", [1, 2])
    cluster.failover()
    cluster.expire(1, alive=[2, 3, 4, 5, 6])
    assert cluster.partition("t").leader == 2


replica_lists = st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True).map(tuple)


@given(first=replica_lists, second=replica_lists, third=replica_lists, data=st.data())
def test_C6_no_step_of_a_reassignment_loses_the_isr(
    first: tuple[int, ...], second: tuple[int, ...], third: tuple[int, ...], data: st.DataObject
) -> None:
    isr = tuple(data.draw(st.lists(st.sampled_from(first), min_size=1, unique=True)))
    now = PartitionRegistration(first, (None,) * len(first), isr, isr[0], 0, 0)
    for target in (second, third):
        step = begin(now, target)
        assert set(step.replicas) == set(target) | set(step.removing)
        assert step.replicas[: len(target)] == target
        assert step.isr
        assert set(step.isr) <= set(step.replicas)
        grown = tuple(data.draw(st.lists(st.sampled_from(step.replicas), unique=True))) + step.isr
        step = step._replace(isr=tuple(dict.fromkeys(grown)))
        done = complete(step)
        if done is not None:
            assert done.replicas == target
            assert done.isr
            assert set(done.isr) <= set(target)
        step = done or step
        now = now._replace(
            replicas=step.replicas, isr=step.isr, adding_replicas=step.adding, removing_replicas=step.removing
        )
        back = revert(now)
        if back is not None:
            assert not set(back.replicas) & set(now.adding_replicas)
            assert back.is_unclean or set(back.isr) <= set(now.isr)
            assert back.isr


def test_C6_the_end_waits_for_every_new_replica() -> None:
    assert complete(ReplicaTarget((3, 4, 1), (1, 3), (3, 4), (1,))) is None
    assert complete(ReplicaTarget((3, 4, 1), (1,), (), (3, 4))) == ReplicaTarget((1,), (1,))
    assert complete(ReplicaTarget((1, 2), (2,), (), (2,))) is None, "somebody must have the data"
    assert complete(ReplicaTarget((1, 2), (2,))) is None


def test_C6_a_record_with_other_replicas_always_says_their_directories(cluster: Harness) -> None:
    """Apache Kafka's brokers stop at one that does not."""
    from tierfetch.controller.records import PartitionChangeRecord, decode_record

    cluster.create("t", [1, 2, 3])
    cluster.reassign("t", [1, 2])
    cluster.reassign("t", [2, 4])
    cluster.alter_isr("t", [1, 2, 4])
    records = [decode_record(value).record for value in cluster.log]
    changes = [record for record in records if isinstance(record, PartitionChangeRecord) and record.replicas]
    assert len(changes) == 3
    assert all(len(change.directories) == len(change.replicas) for change in changes)
