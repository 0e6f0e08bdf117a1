"""What the controller hears of where replicas lie."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from tierfetch.broker.cluster.view import NO_LEADER, ClusterView, PartitionRegistration
from tierfetch.broker.replicas.replica_directories import ReplicaDirectories
from tierfetch.controller.core.state import LOST_DIRECTORY
from tierfetch.log.keeper.manager import LogManager
from tierfetch.protocol.topics import TopicIdPartition, TopicPartition

HOME, OFFLINE, OTHER = UUID(int=1 << 100), UUID(int=2 << 100), UUID(int=3 << 100)
KEY = TopicIdPartition(UUID(int=5), "t", 0)


def registered(directory: UUID, leader: int = 1, isr: tuple[int, ...] = (1,)) -> PartitionRegistration:
    return PartitionRegistration(leader, 4, 7, (1, 2), isr, (None, directory))


class Reports:
    """Of broker 2, whose log is open in HOME."""

    def __init__(self) -> None:
        self.made: list[UUID] = []
        view = SimpleNamespace(assign_directory=lambda _, directory_id: self.made.append(directory_id))
        logs: Any = SimpleNamespace(offline_directory_ids=(OFFLINE,), directory_id_of=lambda _: HOME)
        self.directories = ReplicaDirectories(cast(ClusterView, view), cast(LogManager, logs), 2)


@pytest.fixture
def reports() -> Reports:
    return Reports()


def test_D1_a_replica_is_reported_lost_once(reports: Reports) -> None:
    for _ in range(3):
        reports.directories.report_lost(KEY, registered(HOME))
    reports.directories.report_lost(KEY, registered(LOST_DIRECTORY))
    assert reports.made == [LOST_DIRECTORY]


def test_D1_a_replica_that_was_taken_back_unasked_is_reported_lost_again(reports: Reports) -> None:
    for directory in (HOME, LOST_DIRECTORY, HOME):
        reports.directories.report_lost(KEY, registered(directory))
    assert reports.made == [LOST_DIRECTORY, LOST_DIRECTORY]


def test_D1_a_replica_that_fails_while_its_return_is_on_its_way_is_reported_lost(reports: Reports) -> None:
    """The image says so already, but not for long."""
    reports.directories.report_in_use(KEY, registered(LOST_DIRECTORY))
    reports.directories.report_lost(KEY, registered(LOST_DIRECTORY))
    assert reports.made == [HOME, LOST_DIRECTORY]


def test_D1_a_replica_of_a_directory_that_is_offline_is_not_reported(reports: Reports) -> None:
    """The heartbeat does that."""
    reports.directories.report_lost(KEY, registered(OFFLINE))
    assert reports.made == []


def test_D1_a_replica_that_is_back_where_nobody_leads_is_reported_twice(reports: Reports) -> None:
    """A controller of Apache Kafka elects by the directory that it knew before the request."""
    reports.directories.report_lost(KEY, registered(HOME, isr=(2,)))
    reports.directories.report_in_use(KEY, registered(LOST_DIRECTORY, NO_LEADER, isr=(2,)))
    assert reports.made == [LOST_DIRECTORY, HOME]
    reports.directories.report_in_use(KEY, registered(HOME, NO_LEADER, isr=(2,)))
    assert reports.made == [LOST_DIRECTORY, HOME, HOME]
    for _ in range(2):
        reports.directories.report_in_use(KEY, registered(HOME, leader=2, isr=(2,)))
    assert reports.made == [LOST_DIRECTORY, HOME, HOME]


def test_a_replica_that_was_never_lost_waits_for_its_leader_in_silence(reports: Reports) -> None:
    reports.directories.report_in_use(KEY, registered(HOME, NO_LEADER, isr=(2,)))
    assert reports.made == []


def test_what_is_not_hosted_is_forgotten(reports: Reports) -> None:
    reports.directories.report_lost(KEY, registered(HOME))
    reports.directories.forget(TopicPartition("t", 0))
    reports.directories.report_lost(KEY, registered(HOME))
    assert reports.made == [LOST_DIRECTORY, LOST_DIRECTORY]


def test_D4_a_replica_that_moves_is_reported_where_it_is_about_to_be(reports: Reports) -> None:
    reports.directories.promised[KEY] = OTHER
    for _ in range(2):
        reports.directories.report_in_use(KEY, registered(HOME))
    reports.directories.promised.clear()
    reports.directories.report_in_use(KEY, registered(OTHER))
    assert reports.made == [OTHER, HOME]
