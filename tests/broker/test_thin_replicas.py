"""F11: what a broker reports of its thin replicas, from the commit of their bootstrap to their warming."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

import pytest

from tierfetch.broker.replicas.partition import Partition
from tierfetch.broker.replicas.thin_replicas import ThinReplicas, WarmingLimits
from tierfetch.log.replica.state import LogOffsets
from tierfetch.protocol.topics import TopicIdPartition, TopicPartition

KEY = TopicIdPartition(UUID(int=7), "t", 0)


@dataclass
class Log:
    """Of offsets [100, 200), bytes 10, where offsets from 0 on are in the tier."""

    is_adopted: bool = False
    is_thin: bool = False
    log_start_offset: int = 0
    local_log_start_offset: int = 100
    size_bytes: int = 10

    @property
    def state(self) -> Log:
        return self

    @property
    def segments(self) -> Log:
        return self

    @property
    def offsets(self) -> LogOffsets:
        start, local_start, end = self.log_start_offset, self.local_log_start_offset, 200
        return LogOffsets(start, local_start, None, end, end, end, end, end)

    async def confirm_warmed(self) -> None:
        self.is_thin = False


@dataclass
class Hosted:
    log: Log
    partition: TopicIdPartition = field(default=KEY)


class Stage:
    """One hosted replica."""

    def __init__(self, log: Log) -> None:
        self.now_ms, self.log, self.heard = 1_000, log, 0
        self.hosted: dict[TopicPartition, Partition] = {}
        self.partition: Partition = Hosted(log)  # type: ignore[assignment]  # as far as it is looked at
        self.hosted[KEY.topic_partition] = self.partition
        self.thin = ThinReplicas(lambda: self.now_ms, self.hosted, WarmingLimits(1_000, 5_000))
        self.thin.on_change = self.hear

    def hear(self) -> None:
        self.heard += 1

    def reported(self) -> list[tuple[int, int, int]]:
        return [(item.local_start_offset, item.local_bytes, item.age_ms) for item in self.thin.report()]


def test_F11_a_replica_is_reported_before_it_has_joined_the_isr() -> None:
    stage = Stage(Log(is_adopted=True))
    stage.thin.opened(stage.partition)
    stage.now_ms += 9_000
    assert stage.reported() == [(100, 10, 0)], "it is not in sync yet, and warms by bytes only"
    assert stage.heard == 1
    stage.log.is_adopted = False
    assert stage.reported() == [(100, 10, 0)], "confirmed by the disk, and not noted yet"
    stage.thin.joined(stage.partition)
    stage.now_ms += 300
    assert stage.reported() == [(100, 10, 300)]


@pytest.mark.parametrize(
    ("log", "reported"),
    [
        (Log(is_thin=True), [(100, 10, 0)]),
        (Log(), []),
        (Log(is_adopted=True, log_start_offset=100), []),
    ],
    ids=["thin in an earlier run", "not from the tier", "nothing below its start"],
)
def test_F11_a_log_that_is_opened(log: Log, reported: list[tuple[int, int, int]]) -> None:
    stage = Stage(log)
    stage.thin.opened(stage.partition)
    assert stage.reported() == reported


def test_F11_the_controller_hears_at_once_that_a_replica_is_full() -> None:
    stage = Stage(Log(is_thin=True))
    stage.thin.opened(stage.partition)
    stage.log.local_log_start_offset = 50
    stage.thin.warmed(stage.partition, is_full=False)
    assert (stage.reported(), stage.heard) == ([(50, 10, 0)], 1)
    stage.thin.warmed(stage.partition, is_full=True)
    assert (stage.reported(), stage.heard) == ([], 2)


def test_F11_how_long_at_most_a_replica_stays_thin() -> None:
    stage = Stage(Log(is_adopted=True))
    stage.thin.opened(stage.partition)
    stage.now_ms += 900
    assert stage.thin.warm_in_ms() == {KEY.topic_partition: 5_000}, "the time begins as it joins the ISR"
    stage.log.is_adopted = False
    stage.thin.joined(stage.partition)
    stage.now_ms += 900
    assert stage.thin.warm_in_ms() == {KEY.topic_partition: 4_100}
    stage.log.size_bytes = 1_000
    assert stage.thin.warm_in_ms() == {}


def test_F11_what_is_hosted_no_more_is_not_reported() -> None:
    stage = Stage(Log(is_adopted=True))
    stage.thin.opened(stage.partition)
    del stage.hosted[KEY.topic_partition]
    assert stage.reported() == []
