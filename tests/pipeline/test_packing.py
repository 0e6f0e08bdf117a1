"""Splits into tasks"""

from collections.abc import Sequence

import pytest

from tierfetch.pipeline.access.stores import StoreRef
from tierfetch.pipeline.core.batch_table import Selection
from tierfetch.pipeline.core.offset_cover import Split
from tierfetch.pipeline.planning.packing import OPEN_COST_BYTES, pack
from tierfetch.pipeline.planning.table import LostSplit, TableSplit, TailSplit
from tierfetch.pipeline.planning.tier_splits import PlannedSplit
from tierfetch.protocol.topics import TopicPartition
from tierfetch.testing.remote_log_metadata import make_segment

MIB = 1024 * 1024
PARTITION, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def of(size: int, partition: TopicPartition = PARTITION) -> PlannedSplit:
    split = Split(make_segment(1), 1000, 1000 + size, Selection())
    return PlannedSplit(partition, StoreRef("/tier", "kafka"), split)


TAIL = TailSplit(PARTITION, None, 5, 9)
LOST = LostSplit(PARTITION, 5, "gone")


@pytest.mark.parametrize(
    ("splits", "tasks"),
    [
        ([], []),
        ([of(16 * MIB)] * 5, [2, 2, 1]),
        ([of(33 * MIB), of(1), of(33 * MIB)], [1, 1, 1]),
        ([of(31 * MIB), of(1)], [1, 1]),
        ([of(10)] * 9, [8, 1]),
        ([of(MIB), of(MIB, OTHER)], [1, 1]),
        ([of(MIB), LOST, TAIL, of(MIB), of(MIB)], [1, 1, 1, 2]),
    ],
)
def test_neighbours_of_a_partition_share_a_task(splits: Sequence[TableSplit], tasks: Sequence[int]) -> None:
    packed = pack(splits, 32 * MIB)
    assert [len(task) for task in packed] == tasks
    assert [split for task in packed for split in task] == list(splits)


def test_of_a_thousand_small_partitions_several_share_a_task() -> None:
    """Each would cost Spark as much as reading megabytes."""
    splits = [of(MIB, TopicPartition("t", number)) for number in range(1000)]
    packed = pack(splits, 32 * MIB)
    assert [split for task in packed for split in task] == splits
    assert {len(task) for task in packed} == {8}


def test_a_task_of_less_than_it_costs_to_open_a_segment_has_one_split() -> None:
    assert [len(task) for task in pack([of(1)] * 3, OPEN_COST_BYTES - 1)] == [1, 1, 1]
