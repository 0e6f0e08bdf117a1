"""Looks at the replicas of a quorum after every event. One line for each transition, and the invariants of its log:
those of `core.partition` for the one partition, and

| invariant         | violated when                                                                         |
|-------------------|---------------------------------------------------------------------------------------|
| one vote an epoch | a process votes for two candidates in one epoch; or two candidates (or leaders) count |
|                   | the vote of one voter in one epoch, whatever crashed in between                       |
| durable vote      | a candidate counts a vote that is not on the voter's disk                             |
| up-to-date vote   | a candidate counts the vote of a voter whose log its own is not as up to date as      |
| durable majority  | a leader's high watermark rises above what a majority of the voters has on its disks  |
| own epoch commits | a leader's high watermark rises to the end of an earlier leader's records: these may  |
|                   | still be overwritten (Raft 5.4.2)                                                     |
| durable snapshot  | a log begins above 0, and no snapshot on the disk has what is below                   |

A vote that no candidate ever heard of binds nobody: it may not have been on the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ...light_dataclass import dataclass
from ...protocol import CLUSTER_METADATA_TOPIC
from ...quorum import LeaderAndEpoch, QuorumNode, RaftState, ReplicaKey
from ...quorum.core import Candidate, Role, VoterHistory
from ..machine.process import Process
from .core.events import (
    Observed,
    ProcessEnded,
    QuorumCommitted,
    QuorumEpochMoved,
    QuorumEvent,
    QuorumLeaderElected,
    VoteCast,
    VotersMoved,
)
from .core.partition import InvariantViolationError, PartitionJudge, ReplicaStatus
from .durability import DurableLogs

PARTITION: Final = f"{CLUSTER_METADATA_TOPIC}-0"
DIRECTORY: Final = Path("/metadata") / PARTITION
"""Where simulated voters keep the quorum's log."""


@dataclass(slots=True, eq=False)
class _Seen:
    """What there was of a replica when it was looked at last."""

    process: Process
    role: Role
    leader_id: int | None
    epoch: int
    voted_key: ReplicaKey | None
    votes: int
    high_watermark: int
    log_start_offset: int
    log_end_offset: int
    epochs_version: int
    voters: VoterHistory

    def standing(self) -> tuple[object, ...]:
        """What it believes of its epoch."""
        return self.role.state, self.leader_id, self.epoch, self.voted_key


def _voters_moved(before: _Seen, now: _Seen) -> bool:
    """Whether what is judged of the voters has changed: other sets, more of them committed, another role."""
    if before.voters is not now.voters or before.standing() != now.standing():
        return True
    return before.high_watermark <= now.voters.latest.offset < now.high_watermark


def _votes(role: Role) -> int:
    """How many count for it; a leader's no longer change."""
    return len(role.poll.granted) if isinstance(role, Candidate) else 0


class QuorumJudge:
    """Judges the replicas on `nodes` (ids by host). `replica_of` gives what runs there, `disks` what would survive;
    `has_disk` says whether a host has the disk of a replica still: of one that was lost nothing counts.
    """

    def __init__(
        self,
        nodes: Mapping[str, int],
        replica_of: Callable[[str], QuorumNode | None],
        disks: DurableLogs,
        record: Callable[[str, str], None],
        publish: Callable[[QuorumEvent], None],
        has_disk: Callable[[str, ReplicaKey], bool] = lambda *_: True,
    ) -> None:
        self._has_disk = has_disk
        self.invariants = PartitionJudge(PARTITION)
        self._nodes = nodes
        self._hosts = {node_id: host for host, node_id in nodes.items()}
        self._replica_of = replica_of
        self._disks = disks
        self._record = record
        self._publish = publish
        self._seen: dict[str, _Seen] = {}
        """The last look, by host."""
        self._voted: dict[tuple[str, int, int], int] = {}
        """The candidate that was voted for, by host, process and epoch."""
        self._counted: dict[tuple[int, int], int] = {}
        """The candidate that counts a vote, by voter and epoch."""
        self.installed = 0
        """How often a snapshot took the place of a log."""

    def look(self, process: Process) -> None:
        """Look at the replica of this process, after an event of its own. InvariantViolationError."""
        host = process.host
        replica = self._replica_of(host)
        if replica is None:
            return
        core, state = replica._core._replica, replica.log._log.state
        before = self._seen.get(host)
        if (
            before is None
            or before.role is not core.role
            or before.log_end_offset != state.log_end_offset
            or before.high_watermark != core.high_watermark
            or before.epochs_version != state.epochs._version
            or before.leader_id != core.leader_id
            or before.epoch != core.epoch
            or before.voted_key is not core.voted_key
            or before.log_start_offset != state.log_start_offset
            or before.process is not process
            or before.votes != _votes(core.role)
            or before.voters is not core.voter_history
        ):
            seen = _Seen(
                process,
                core.role,
                core.leader_id,
                core.epoch,
                core.voted_key,
                _votes(core.role),
                core.high_watermark,
                state.log_start_offset,
                state.log_end_offset,
                state.epochs._version,
                core.voter_history,
            )
            self._look(replica, before, seen)

    def _look(self, replica: QuorumNode, before: _Seen | None, seen: _Seen) -> None:
        """At one in which something has moved."""
        process, host = seen.process, seen.process.host
        self._seen[host] = seen
        log, status = replica.log, replica.status
        known = status.leader_and_epoch
        if before is None or before.standing() != seen.standing():
            text = f"{self.invariants.name} epoch={known.epoch} {status.state.value} leader={known.leader_id}"
            offsets_text = f"hw={status.high_watermark} end={log.log_end_offset}"
            self._record(host, f"{text} voted={status.voted_id} {offsets_text}")
        if before is None or before.epoch != seen.epoch:
            self._publish(QuorumEpochMoved(host, seen.epoch))
        is_leader = status.state is RaftState.LEADER
        if is_leader and (before is None or before.role.state is not RaftState.LEADER):
            self._publish(QuorumLeaderElected(host))
        self._check_votes(process, replica)
        if before is None or before.log_start_offset != seen.log_start_offset:
            self._check_snapshot(host, seen.log_start_offset)
            has_jumped = before is not None and before.log_end_offset != seen.log_end_offset
            self.installed += has_jumped and seen.log_start_offset == seen.log_end_offset
        # The commit of its own removal is the last thing that a leader does.
        has_resigned = before is not None and before.role.state is RaftState.LEADER and before.epoch == seen.epoch
        leads = is_leader or (has_resigned and status.state is RaftState.RESIGNED)
        if leads and before is not None and before.high_watermark < status.high_watermark:
            self._check_commit(process, replica)
            self._publish(QuorumCommitted(status.high_watermark))
        if before is None or _voters_moved(before, seen):
            core = replica._core._replica
            self._publish(
                VotersMoved(
                    host,
                    process.number,
                    core.key,
                    seen.epoch,
                    is_leader,
                    seen.voters.entries,
                    seen.high_watermark,
                    core.log.end_offset,
                )
            )
        self.invariants.observe(
            ReplicaStatus(
                node_id=self._nodes[host],
                incarnation=process.number,
                leader_epoch=known.epoch,
                leads_epoch=known.epoch if leads else None,
                log_start_offset=log.log_start_offset,
                local_log_start_offset=log.log_start_offset,
                high_watermark=status.high_watermark,
                log_end_offset=log.log_end_offset,
                epochs=log.epochs.entries,
            )
        )

    def on(self, event: Observed) -> None:
        if isinstance(event, ProcessEnded) and event.host in self._nodes:
            self._process_ended(event.host)

    def _process_ended(self, host: str) -> None:
        """Forget what the node believed."""
        self._seen.pop(host, None)
        self.invariants.forget(self._nodes[host])

    def _check_votes(self, process: Process, replica: QuorumNode) -> None:
        status = replica.status
        node_id, epoch, voted_id = self._nodes[process.host], status.leader_and_epoch.epoch, status.voted_id
        if voted_id is not None:
            key = (process.host, process.number, epoch)
            if key not in self._voted and voted_id != node_id:
                self._publish(VoteCast(process.host, self._hosts[voted_id]))
            self._check_one(self._voted.setdefault(key, voted_id), voted_id, node_id, epoch)
        counted = status.granting_voters
        for voter in counted if len(counted) > 1 else ():  # its own alone may not be on its disk yet
            if (voter, epoch) not in self._counted and self._is_there(replica, voter):
                self._check_on_disk(voter, epoch, node_id)
                self._check_logs(voter, epoch, process.host, replica)
            self._check_one(self._counted.setdefault((voter, epoch), node_id), node_id, voter, epoch)

    def _is_there(self, replica: QuorumNode, voter: int) -> bool:
        """Whether the disk is where the voter has voted."""
        node = replica.status.voters.voters.by_id.get(voter)
        return node is None or self._has_disk(self._hosts[voter], node.key)

    def _check_on_disk(self, voter: int, epoch: int, candidate: int) -> None:
        """One that has moved to a later epoch had to forget this one."""
        vote = self._disks.vote(self._hosts[voter], DIRECTORY)
        if vote is None or vote.epoch < epoch or (vote.epoch == epoch and vote.voted_id != candidate):
            detail = f"{candidate} counts the vote of {voter} in {epoch}, whose disk says {vote}"
            raise InvariantViolationError("durable vote", detail)

    def _check_logs(self, voter: int, epoch: int, host: str, candidate: QuorumNode) -> None:
        """As long as the voter has not gone on its log is what it was when it voted."""
        replica = self._replica_of(self._hosts[voter])
        if replica is None or replica.status.leader_and_epoch != LeaderAndEpoch(None, epoch):
            return
        last, own = candidate._core._replica.log.last, replica._core._replica.log.last
        if (last.epoch, last.offset) < (own.epoch, own.offset):
            detail = f"node {self._nodes[host]} counts the vote of {voter} in {epoch} with {last}, the voter has {own}"
            raise InvariantViolationError("up-to-date vote", detail)

    def _check_commit(self, process: Process, replica: QuorumNode) -> None:
        status = replica.status
        end, epoch = status.high_watermark, status.leader_and_epoch.epoch
        if replica.log.epochs.epoch_for_offset(end - 1) != epoch:
            detail = f"{process.host} leads {epoch} and commits up to {end} of {replica.log.epochs}"
            raise InvariantViolationError("own epoch commits", detail)
        keys = {self._hosts[node.id]: node.key for node in status.voters.voters if node.id in self._hosts}
        voters = list(keys)
        holders = [
            host for host in voters if self._disks.holds(host, DIRECTORY, end) and self._has_disk(host, keys[host])
        ]
        if 2 * len(holders) <= len(voters):
            detail = f"{process.host} commits up to {end}, which is on the disks of {holders} of {voters} only"
            raise InvariantViolationError("durable majority", detail)

    def _check_snapshot(self, host: str, log_start_offset: int) -> None:
        if log_start_offset > 0 and (end := self._disks.snapshot_end(host, DIRECTORY)) < log_start_offset:
            detail = f"the log of {host} begins at {log_start_offset}, the snapshots on its disk end at {end}"
            raise InvariantViolationError("durable snapshot", detail)

    @staticmethod
    def _check_one(earlier: int, candidate: int, voter: int, epoch: int) -> None:
        if earlier != candidate:
            detail = f"node {voter} voted for {earlier} and for {candidate} in {epoch}"
            raise InvariantViolationError("one vote an epoch", detail)
