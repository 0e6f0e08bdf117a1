"""What a deleted topic leaves behind."""

from __future__ import annotations

from uuid import UUID

from tierfetch.plugins.layout import partition_directory
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.sim.governed_state import _of_deleted_topics
from tierfetch.sim.truth import ClusterTruth
from tierfetch.sim.world import World

GONE = TopicIdPartition(UUID(int=1), "side-1", 0)
KEY = f"{partition_directory(GONE)}/{0:020}-AAAAAAAAAAAAAAAAAAAAAA.log"


def test_every_object_of_a_deleted_topic_is_a_leak_but_what_was_deleted_while_it_hung() -> None:
    truth = ClusterTruth("c", "PLAINTEXT")
    truth.topics[GONE.topic_id] = GONE.topic
    with World(1) as world:
        assert not list(_of_deleted_topics(truth, {}, world.store))
        world.store.put(KEY, b"records")
        ((where, why),) = _of_deleted_topics(truth, {}, world.store)
        assert (where, why) == ("side-1-0", f"was deleted, and 1 objects are left, as {KEY}")
        world.store.orphans.add(KEY)
        assert not list(_of_deleted_topics(truth, {}, world.store))
