"""Bugs that show only where a disk fails."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from unittest.mock import patch
from uuid import UUID

from tierfetch.broker.replicas import failed_logs
from tierfetch.broker.replicas.directory_moves import DirectoryMoves, _Move
from tierfetch.broker.replicas.replica_directories import ReplicaDirectories
from tierfetch.controller.core import broker_registration
from tierfetch.controller.core.broker_changes import IsLost
from tierfetch.controller.image.registrations import BrokerRegistration
from tierfetch.fetcher.core.leader_replicas import LeaderReplicas
from tierfetch.log import PartitionLog
from tierfetch.log.keeper import LogManager
from tierfetch.log.replica import recovery
from tierfetch.sim.faults.schedule import FaultKind
from tierfetch.tests.sim.planted.registry import planted

FAILED_LOGS = "tests/broker/test_failed_logs.py"
SHORTER_LOG = "a log that comes back shorter keeps its place in the ISR"


@planted(
    "a second fsync is believed where the first has failed",
    file="log/replica/recovery.py",
    scenario="cluster",
    faults=(FaultKind.FAILED_FSYNC,),
    flush_messages=(1, 5),
)
def second_fsync_believed() -> Iterator[None]:
    async def rewrite(segment: object) -> None:
        """It is read as it was written, so it is there."""

    with patch.object(recovery, "_rewrite", rewrite):
        yield


@planted(
    "the quorum believes a second fsync where the first has failed",
    file="quorum/storage/metadata_log.py",
    scenario="quorum",
    faults=(FaultKind.FAILED_FSYNC,),
)
def second_fsync_believed_by_the_quorum() -> Iterator[None]:
    with second_fsync_believed():
        yield


@planted(
    SHORTER_LOG,
    file="broker/replicas/replica_directories.py",
    scenario="cluster",
    shown_by=FAILED_LOGS,
    faults=(FaultKind.LOST_PAGES,),
    replication_factor=(3,),
)
def shorter_log_in_the_isr() -> Iterator[None]:
    def report_lost(self: ReplicaDirectories, *_: object) -> None:
        """It is open again by now."""

    with (
        patch.object(ReplicaDirectories, "report_lost", report_lost),
        patch.object(failed_logs, "obstacle", lambda *_: None),
        patch.object(LeaderReplicas, "isr_without_shorter", lambda *_: None),  # its leader sees it, too
    ):
        yield


@planted(
    "a replica whose log fails at each append stays in the ISR",
    file="broker/replicas/replica_directories.py",
    scenario="cluster",
    faults=(FaultKind.LOST_PAGES, FaultKind.FAILED_FSYNC, FaultKind.DISK_ERRORS),
    replication_factor=(3,),
)
def failing_log_in_the_isr() -> Iterator[None]:
    def report_lost(self: ReplicaDirectories, *_: object) -> None:
        """Who lags leaves the ISR in any case."""

    with patch.object(ReplicaDirectories, "report_lost", report_lost):
        yield


OF_DIRECTORIES = (FaultKind.DIRECTORY_FAILS, FaultKind.DIRECTORY_HANGS)


@planted(
    "the wrong log directory is reported offline",
    file="log/keeper/manager.py",
    scenario="cluster",
    faults=OF_DIRECTORIES,
    log_directories=(2,),
)
def wrong_directory_offline() -> Iterator[None]:
    def offline_directory_ids(self: LogManager) -> tuple[UUID, ...]:
        """Counted from the end."""
        return tuple(
            directory.directory_id
            for directory, other in zip(self.directories, reversed(self.directories), strict=True)
            if directory.directory_id.int and other.offline is not None
        )

    with patch.object(LogManager, "offline_directory_ids", property(offline_directory_ids)):
        yield


@planted(
    "of a broker that has a directory left no replica counts as lost",
    file="controller/core/broker_registration.py",
    scenario="cluster",
    faults=(FaultKind.DIRECTORY_LOST,),
    log_directories=(2,),
)
def directory_left_is_enough() -> Iterator[None]:
    def is_lost(before: BrokerRegistration | None, broker_id: int, directories: Collection[UUID | None]) -> IsLost:
        if before is not None and not set(before.directories).isdisjoint(directories):
            return lambda _: False
        return real_is_lost(before, broker_id, directories)

    real_is_lost = broker_registration._is_lost
    with patch.object(broker_registration, "_is_lost", is_lost):
        yield


@planted(
    "another log directory is reported before the copy there is whole",
    file="broker/replicas/directory_moves.py",
    scenario="cluster",
    faults=(FaultKind.MOVE_DIRECTORY,),
    log_directories=(2,),
)
def reported_too_early() -> Iterator[None]:
    async def follow(self: DirectoryMoves, move: _Move, current: PartitionLog, future: PartitionLog) -> bool:
        if move.key not in self.directories.promised:
            self.directories.promised[move.key] = move.destination.directory_id
            self._report(move)
        return await real_follow(self, move, current, future)

    real_follow = DirectoryMoves._follow
    with patch.object(DirectoryMoves, "_follow", follow):
        yield
