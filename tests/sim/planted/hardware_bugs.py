"""Bugs that show only where a disk fails."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

from tierfetch.broker.replicas import failed_logs
from tierfetch.broker.replicas.replica_directories import ReplicaDirectories
from tierfetch.fetcher.core.leader_replicas import LeaderReplicas
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
