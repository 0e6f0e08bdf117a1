"""Asking a live cluster for its inventory, also while it changes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tierfetch.cli.model.capture import observe
from tierfetch.cli.model.estimate import capture
from tierfetch.cli.model.observe import ROUNDS_MAX, Observer
from tierfetch.cli.model.snapshot import RemoteSegment, Snapshot
from tierfetch.protocol.api import ApiKey

from .clusters import FakeCluster, FakePartition


def observer(cluster: FakeCluster) -> Observer:
    return Observer(cluster, ledgers=cluster.ledgers, clock=lambda: 0.0, pause_s=0.0)


async def look(cluster: FakeCluster) -> Snapshot:
    return await observer(cluster).everything()


def tiered() -> FakeCluster:
    return FakeCluster({("t", 0): FakePartition()}, topic_configs={"t": {"remote.storage.enable": "true"}})


async def test_everything_that_a_cluster_tells() -> None:
    cluster = tiered()
    cluster.partitions["t", 0].offsets = {-1: 900, -2: 10, -4: 300, -5: 499, -6: 500}
    found = await look(cluster)
    offsets = found.partitions["t", 0].offsets
    assert offsets is not None
    assert (offsets.log_start, offsets.local_log_start, offsets.last_tiered) == (10, 300, 499)
    assert (offsets.next_upload, offsets.log_end) == (500, 900)
    assert found.local_bytes == {(1, "t", 0): 100_000, (2, "t", 0): 100_000}
    assert found.brokers[2].disk_bytes == 10**12
    assert found.brokers[2].rack == "rack-2"
    assert found.is_tiered("t")
    assert found.remarks == ()


async def test_the_rack_of_a_broker_that_is_not_alive_is_told_by_its_registration() -> None:
    cluster = tiered()
    cluster.fenced = (3,)
    found = await look(cluster)
    assert (sorted(found.brokers), found.racks) == ([1, 2], {1: "rack-1", 2: "rack-2", 3: "rack-3"})


async def test_untiered_topics_are_asked_for_two_offsets_only() -> None:
    cluster = FakeCluster({("t", 0): FakePartition()})
    found = await look(cluster)
    assert cluster.asked.count(ApiKey.LIST_OFFSETS) == 2
    assert found.partitions["t", 0].offsets is not None
    assert found.partitions["t", 0].offsets.next_upload is None


async def test_unknown_and_unsupported_offsets_are_none() -> None:
    cluster = tiered()
    cluster.unsupported = {-6}
    found = (await look(cluster)).partitions["t", 0].offsets
    assert found is not None
    assert found.next_upload is None
    assert found.last_tiered is None, "-1 is no offset"
    assert found.log_end == 1000


async def test_leader_that_moves_is_asked_at_its_new_place() -> None:
    cluster = tiered()

    def move(cluster: FakeCluster, api: ApiKey, body: Any) -> None:
        if api is ApiKey.LIST_OFFSETS:
            cluster.partitions["t", 0].leader = 2

    cluster.before_answer = move
    found = await look(cluster)
    state = found.partitions["t", 0]
    assert state.leader == 2
    assert state.offsets is not None
    assert state.offsets.log_end == 1000


async def test_leader_that_never_settles_is_said() -> None:
    cluster = tiered()

    def move(cluster: FakeCluster, api: ApiKey, body: Any) -> None:
        if api is ApiKey.LIST_OFFSETS:
            asked_first = cluster.partitions["t", 0].leader
            cluster.partitions["t", 0].leader = 2 if asked_first == 1 else 1

    cluster.before_answer = move
    cluster.topic_configs = {}
    found = await look(cluster)
    assert found.partitions["t", 0].offsets is None
    assert found.remarks == ("t-0: whose leader did not answer for its offsets",)
    assert cluster.asked.count(ApiKey.METADATA) == ROUNDS_MAX


async def test_topic_deleted_meanwhile_is_left_out_and_said() -> None:
    cluster = tiered()
    cluster.partitions["gone", 0] = FakePartition()

    def delete(cluster: FakeCluster, api: ApiKey, body: Any) -> None:
        if api is ApiKey.LIST_OFFSETS:
            cluster.partitions.pop(("gone", 0), None)

    cluster.before_answer = delete
    found = await look(cluster)
    assert set(found.partitions) == {("t", 0)}
    assert found.remarks == ("gone-0: deleted while the cluster was asked; left out",)


async def test_topic_created_meanwhile_is_left_out() -> None:
    cluster = tiered()

    def create(cluster: FakeCluster, api: ApiKey, body: Any) -> None:
        if api is ApiKey.LIST_OFFSETS:
            cluster.partitions["new", 0] = FakePartition()
            cluster.partitions["t", 0].leader = 2

    cluster.before_answer = create
    assert set((await look(cluster)).partitions) == {("t", 0)}


async def test_broker_that_does_not_answer() -> None:
    cluster = tiered()
    cluster.silent = {2}
    cluster.partitions["t", 1] = FakePartition(leader=2)
    found = await look(cluster)
    assert found.partitions["t", 1].offsets is None
    assert (2, "t", 0) not in found.local_bytes
    assert found.brokers[2].disk_bytes is None
    assert [remark.split(":")[0] for remark in found.remarks] == [
        "t-1",
        "broker 2 does not report what its log directories hold",
    ]


async def test_partition_without_a_leader_stays() -> None:
    cluster = tiered()
    cluster.partitions["t", 1] = FakePartition(leader=-1, isr=())
    cluster.partitions["t", 2] = FakePartition(leader=9)
    found = await look(cluster)
    assert found.partitions["t", 1].leader == found.partitions["t", 2].leader == -1
    assert found.remarks == ("t-1, t-2: without a leader: no offsets",)


async def test_reassignments_are_said_and_many_names_counted() -> None:
    cluster = tiered()
    cluster.moving = [("t", index) for index in range(7)]
    (remark,) = (await look(cluster)).remarks
    assert remark.startswith("t-0, t-1, t-2, t-3, t-4 and 2 more: being reassigned")


async def test_growth_is_of_the_partitions_that_were_there() -> None:
    cluster = tiered()
    first = await look(cluster)
    cluster.partitions["t", 0].offsets[-1] = 1500
    cluster.partitions["new", 0] = FakePartition()
    second = await observer(cluster).growth(first)
    assert set(second.partitions) == {("t", 0)}
    assert second.partitions["t", 0].offsets is not None
    assert second.partitions["t", 0].offsets.log_end == 1500


@pytest.mark.parametrize("answer_s", [0.01, 0.5, 2.0])
async def test_what_producers_write_is_seen_however_long_each_question_takes(answer_s: float) -> None:
    """Twelve brokers that answer slowly: between offsets and the end of a look pass many times the window."""
    now_s, rate, names = 0.0, 100, [("t", each) for each in range(12)]

    def passes(cluster: FakeCluster, api: ApiKey, body: Any) -> None:
        nonlocal now_s
        now_s += answer_s / 2
        for part in cluster.partitions.values():
            part.offsets[-1] = round(1_000_000 + rate * now_s)
        now_s += answer_s / 2

    async def wait(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    parts = {name: FakePartition(leader=1 + name[1], replicas=(1 + name[1],), isr=(1 + name[1],)) for name in names}
    for part in parts.values():
        part.sizes = dict.fromkeys(range(1, 13), 10_000_000)
    cluster = FakeCluster(parts, brokers=tuple(range(1, 13)), before_answer=passes)
    looking = Observer(cluster, ledgers=cluster.ledgers, clock=lambda: now_s, pause_s=0.0)
    first, second = await observe(looking, 3.0, wait)
    document = capture(first, second, {}, "c").document
    rates = [each["produce_bytes_per_s"] for each in document["topics"][0]["partitions"]]
    assert rates == pytest.approx([10 * rate] * len(names), rel=0.02)


OWN, OLD = UUID(int=1), UUID(int=2)


async def test_segments_in_the_tier_are_the_finished_ones_of_this_topic() -> None:
    """Not those of a topic that had its name before, nor of one that is not tiered any more."""
    cluster = tiered()
    cluster.topic_ids = {"t": OWN}
    cluster.segments = [(OWN, ("t", 0), 0, 9, 100), (OWN, ("t", 0), 10, 19, 120), (OLD, ("t", 0), 0, 99, 5000)]
    cluster.segments += [(OWN, ("untiered", 0), 0, 9, 100)]
    found = await look(cluster)
    assert found.remote == {("t", 0): [RemoteSegment(0, 9, 100), RemoteSegment(10, 19, 120)]}
    assert found.remarks == ()
    (reader,) = cluster.readers
    assert (reader.brokers, reader.is_closed) == ([1, 2], True)


async def test_metadata_that_cannot_be_read_are_said_with_the_reason() -> None:
    cluster = tiered()
    cluster.unreadable = "no broker tells of __remote_log_metadata: it does not exist"
    found = await look(cluster)
    assert found.remote is None
    assert found.remarks == (
        "what is in the tier alone is estimated by local records, or unknown: no broker tells of"
        " __remote_log_metadata: it does not exist",
    )
    assert cluster.readers[0].is_closed


async def test_metadata_are_not_read_where_nothing_is_tiered() -> None:
    cluster = FakeCluster({("t", 0): FakePartition()})
    assert (await look(cluster)).remote is None
    assert cluster.readers == []
