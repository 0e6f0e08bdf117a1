"""Where the log of a leader has begun, told from statuses made by hand."""

from __future__ import annotations

from uuid import UUID

from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.sim.judges.core.clients.beginnings import BeginningsJudge
from tierfetch.sim.judges.core.events import ReplicaChanged
from tierfetch.sim.judges.core.partition import ReplicaStatus

NAME = TopicIdPartition(UUID(int=1), "t", 0)


class Replica:
    """One replica of a run, and what the judge says of what it has appended."""

    def __init__(self, judge: BeginningsJudge | None = None, node_id: int = 1) -> None:
        self.judge = BeginningsJudge() if judge is None else judge
        self.node_id = node_id

    def is_at(self, start: int, local: int, end: int, *, leads: int | None = None, process: int = 1) -> None:
        status = ReplicaStatus(self.node_id, process, 0, leads, start, local, 0, end, ())
        self.judge.on(ReplicaChanged(NAME, status))

    def began(self, offset: int) -> int:
        return self.judge.began(NAME, offset)


def test_an_empty_replica_begins_at_the_log_start_that_it_is_given() -> None:
    replica = Replica()
    replica.is_at(0, 0, 0)
    replica.is_at(50, 50, 50)
    replica.is_at(50, 50, 60)
    replica.is_at(50, 50, 60, leads=3)
    replica.is_at(50, 50, 64, leads=3)
    assert [replica.began(offset) for offset in (59, 60, 63, 64)] == [0, 50, 50, 0]


def test_a_thin_replica_begins_at_the_log_start_not_at_its_local_one() -> None:
    replica = Replica()
    replica.is_at(0, 0, 0)
    replica.is_at(50, 80, 80)
    replica.is_at(50, 80, 81, leads=3)
    assert replica.began(80) == 50


def test_neither_retention_nor_a_restart_begins_a_log() -> None:
    replica = Replica()
    replica.is_at(0, 0, 0)
    replica.is_at(0, 0, 40)
    replica.is_at(40, 40, 40)
    replica.is_at(40, 40, 40, process=2)
    replica.is_at(40, 40, 41, process=2, leads=3)
    assert replica.began(40) == 0


def test_a_log_that_was_given_up_begins_again() -> None:
    replica = Replica()
    replica.is_at(0, 0, 40)
    replica.is_at(60, 60, 60)
    replica.is_at(60, 60, 61, leads=3)
    assert replica.began(60) == 60


def test_an_exchanged_disk_begins_a_log_again() -> None:
    replica = Replica()
    replica.is_at(0, 0, 40)
    replica.is_at(0, 0, 0, process=2)
    replica.is_at(30, 30, 30, process=2)
    replica.is_at(30, 30, 31, process=2, leads=3)
    assert replica.began(30) == 30


def test_of_two_leaders_the_older_log_counts() -> None:
    judge = BeginningsJudge()
    for node_id, start in ((1, 50), (2, 20)):
        replica = Replica(judge, node_id)
        replica.is_at(0, 0, 0)
        replica.is_at(start, start, 60)
        replica.is_at(start, start, 61, leads=node_id)
    assert judge.began(NAME, 60) == 20
