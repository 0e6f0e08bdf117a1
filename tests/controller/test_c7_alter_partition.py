"""C7: the ISR as its leader changes it, conditional on epochs; and where replicas lie."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tierfetch.controller.core.state import LOST_DIRECTORY
from tierfetch.controller.image.registrations import NO_LEADER
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode

from .harness import Harness, directory


@pytest.fixture
def cluster() -> Harness:
    harness = Harness()
    harness.start(1, 2, 3)
    harness.create("t", [1, 2, 3])
    return harness


@pytest.mark.parametrize("version", [2, 3])
def test_C7_a_leader_shrinks_and_grows_its_isr(cluster: Harness, version: int) -> None:
    answer = cluster.alter_isr("t", [2, 1], version=version)
    assert (answer["error_code"], answer["isr"]) == (ErrorCode.none, [1, 2])
    assert (answer["leader_epoch"], answer["partition_epoch"]) == (0, 1)
    answer = cluster.alter_isr("t", [1, 2, 3], version=version)
    assert (answer["isr"], answer["partition_epoch"]) == ([1, 2, 3], 2)


def test_C7_the_same_isr_again_writes_nothing(cluster: Harness) -> None:
    before = len(cluster.log)
    answer = cluster.alter_isr("t", [3, 2, 1])
    assert (answer["error_code"], answer["partition_epoch"]) == (ErrorCode.none, 0)
    assert len(cluster.log) == before


@pytest.mark.parametrize(
    ("isr", "values", "code"),
    [
        ([1, 2], {"topic_id": UUID(int=77)}, ErrorCode.unknown_topic_id),
        ([1, 2], {"partition_index": 8}, ErrorCode.unknown_topic_or_partition),
        ([1, 2], {"leader_epoch": 1}, ErrorCode.not_controller),
        ([1, 2], {"partition_epoch": 1}, ErrorCode.not_controller),
        ([1, 2], {"leader_epoch": -1}, ErrorCode.fenced_leader_epoch),
        ([1, 2], {"partition_epoch": -1}, ErrorCode.invalid_update_version),
        ([1, 2], {"broker_id": 2}, ErrorCode.invalid_request),
        ([2, 3], {}, ErrorCode.invalid_request),
        ([1, 4], {}, ErrorCode.invalid_request),
        ([1, 1], {}, ErrorCode.invalid_request),
        ([1], {"leader_recovery_state": 1}, ErrorCode.invalid_request),
        ([1], {"leader_recovery_state": 7}, ErrorCode.invalid_request),
        ([1, 2], {"broker_epoch": 9999}, ErrorCode.stale_broker_epoch),
        (
            [1, 2],
            {"members": [{"broker_id": 1, "broker_epoch": -1}, {"broker_id": 2, "broker_epoch": 1}]},
            ErrorCode.ineligible_replica,
        ),
    ],
)
def test_C7_changes_that_are_refused(cluster: Harness, isr: list[int], values: dict[str, Any], code: ErrorCode) -> None:
    before = cluster.partition("t")
    assert cluster.alter_isr("t", isr, **values)["error_code"] is code
    assert cluster.partition("t") == before


def test_C7_a_fenced_or_stopping_broker_joins_no_isr(cluster: Harness) -> None:
    cluster.expire(3, alive=[1, 2])
    assert cluster.alter_isr("t", [1, 2, 3])["error_code"] is ErrorCode.ineligible_replica
    cluster.create("u", [2, 1])
    cluster.heartbeat(2, want_shut_down=True)
    assert cluster.image.brokers[2].in_controlled_shutdown
    assert cluster.alter_isr("t", [1, 2])["error_code"] is ErrorCode.ineligible_replica


def test_C7_two_changes_of_one_partition_in_a_request(cluster: Harness) -> None:
    now = cluster.partition("t")
    item = {"partition_index": 0, "leader_epoch": now.leader_epoch, "partition_epoch": now.partition_epoch}
    items = [
        {**item, "new_isr_with_epochs": [{"broker_id": member, "broker_epoch": -1} for member in isr]}
        for isr in ([1, 2], [1, 3])
    ]
    response = cluster.ask(
        ApiKey.ALTER_PARTITION,
        {
            "broker_id": 1,
            "broker_epoch": cluster.epochs[1],
            "topics": [{"topic_id": cluster.image.topic_ids["t"], "partitions": items}],
        },
    )
    codes = [answer["error_code"] for answer in response["topics"][0]["partitions"]]
    assert codes == [ErrorCode.none, ErrorCode.invalid_request]
    assert cluster.partition("t").isr == (1, 2)


def assign(cluster: Harness, broker_id: int, directory_id: UUID, partition: int = 0, **values: Any) -> Any:
    topic = {"topic_id": cluster.image.topic_ids["t"], "partitions": [{"partition_index": partition}]} | values
    response = cluster.ask(
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        {
            "broker_id": broker_id,
            "broker_epoch": cluster.epochs.get(broker_id, -1),
            "directories": [{"id_": directory_id, "topics": [topic]}],
        },
    )
    if response["error_code"] is not ErrorCode.none:
        return response["error_code"]
    return response["directories"][0]["topics"][0]["partitions"][0]["error_code"]


def test_C7_a_broker_says_in_which_directory_a_replica_lies() -> None:
    cluster = Harness()
    cluster.start(1, log_dirs=[directory(1, 0), directory(1, 1)])
    cluster.start(2)
    cluster.create("t", [1, 2])
    assert cluster.partition("t").directories == (None, directory(2)), "one of two is not known, the only one is"
    assert assign(cluster, 1, directory(1, 1)) is ErrorCode.none
    assert cluster.partition("t").directories == (directory(1, 1), directory(2))
    before = len(cluster.log)
    assert assign(cluster, 1, directory(1, 1)) is ErrorCode.none
    assert len(cluster.log) == before
    assert assign(cluster, 1, directory(1, 1), topic_id=UUID(int=77)) is ErrorCode.unknown_topic_id
    assert assign(cluster, 1, directory(1, 1), partition=5) is ErrorCode.unknown_topic_or_partition
    assert assign(cluster, 7, directory(1, 1)) is ErrorCode.stale_broker_epoch
    cluster.start(3)
    assert assign(cluster, 3, directory(3)) is ErrorCode.not_leader_or_follower


def test_C7_a_replica_in_a_directory_that_is_gone_leads_no_more(cluster: Harness) -> None:
    assert assign(cluster, 1, directory(1, 8)) is ErrorCode.none
    after = cluster.partition("t")
    assert (after.leader, after.isr) == (2, (2, 3))


def test_C7_the_only_member_of_the_isr_leads_again_once_its_log_is_back() -> None:
    cluster = Harness()
    cluster.start(1, 2)
    cluster.create("t", [1, 2])
    cluster.alter_isr("t", [1])
    assert assign(cluster, 1, LOST_DIRECTORY) is ErrorCode.none
    lost = cluster.partition("t")
    assert (lost.leader, lost.isr) == (NO_LEADER, (1,))
    assert assign(cluster, 1, directory(1)) is ErrorCode.none
    back = cluster.partition("t")
    assert (back.leader, back.isr, back.leader_epoch) == (1, (1,), lost.leader_epoch + 1)


def test_C7_a_wiped_replica_that_caught_up_lies_in_the_new_directory(cluster: Harness) -> None:
    cluster.expire(1, alive=[2, 3])
    cluster.register(1, log_dirs=[directory(1, 9)])
    cluster.heartbeat(1)
    cluster.alter_isr("t", [1, 2, 3])
    assert cluster.partition("t").directories[0] == directory(1, 9)
    assert cluster.elect("t", 0)["error_code"] is ErrorCode.none, "it may lead again"
