"""What clients are given beside records, judged with the answer.

| invariant                   | violated when                                                                          |
|-----------------------------|----------------------------------------------------------------------------------------|
| committed before it is told | records, acks=all, a high watermark or a latest offset go beyond what leaders have     |
|                             | reported as committed, less the losses that are allowed                                |
| told start                  | a log start, or an earliest offset, is above all that leaders have had                 |
| known producers             | a batch is refused for its sequence, though its producer has lost nothing that was     |
|                             | acknowledged by all: neither by a fault, nor by retention; nor is it in the log, below |
|                             | a snapshot that has a later one of the producer: Kafka's format holds no more than one |
| out of range                | a reader is told so by a leader in whose log the offset was all the time               |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ....protocol import TopicIdPartition, TopicPartition
from .allowed_losses import AllowedLosses
from .events import (
    CommitReported,
    Logs,
    LogStartReported,
    Observed,
    OffsetRefused,
    ReplicaChanged,
    ReplicaLeft,
    SequenceRefused,
)
from .history import History, Send
from .partition import InvariantViolationError, Replicas, ReplicaStatus
from .replicas import headers_of


class ClientAnswersJudge:
    """`name_of` knows the incarnation of a topic, `highest_start` the highest log start that a leader has had,
    `segments_of` those of all replicas and of the tier: base offset and records. `hosts` by broker id.
    """

    def __init__(
        self,
        history: History,
        allowed_losses_of: Callable[[TopicIdPartition], AllowedLosses],
        replicas: Replicas,
        hosts: Mapping[int, str],
        name_of: Callable[[TopicPartition], TopicIdPartition],
        highest_start: Callable[[TopicIdPartition], int],
        segments_of: Callable[[TopicIdPartition], Iterable[tuple[int, bytes]]],
    ) -> None:
        self._history = history
        self._allowed_losses_of = allowed_losses_of
        self._replicas = replicas
        self._hosts = hosts
        self._name_of = name_of
        self._highest_start = highest_start
        self._segments_of = segments_of
        self._ends: dict[tuple[int, TopicIdPartition], int] = {}
        self._stopped_at: dict[TopicIdPartition, list[int]] = {}
        """The ends of logs that were closed in order: there is a snapshot at each."""

    def on(self, event: Observed) -> None:
        match event:
            case CommitReported(partition, end_offset, client, asked_ms):
                self._commit_reported(partition, end_offset, client, asked_ms)
            case LogStartReported(partition, start_offset, client):
                self._begins(partition, start_offset, client)
            case OffsetRefused(partition, offset, host, logs):
                self._out_of_range(partition, offset, host, logs)
            case SequenceRefused(partition, send):
                self._refused(partition, send)
            case ReplicaChanged(name, now):
                self._ends[now.node_id, name] = now.log_end_offset
            case ReplicaLeft(node_id, name):
                self._stopped_at.setdefault(name, []).append(self._ends.get((node_id, name), 0))

    def _commit_reported(self, partition: TopicPartition, end_offset: int, client: str, asked_ms: int) -> None:
        name = self._name_of(partition)
        committed_end = self._replicas.of(name).committed_end
        if end_offset > committed_end and not self._allowed_losses_of(name).may_be_committed(end_offset, asked_ms):
            detail = f"{partition}: {client} was told of {end_offset}, leaders reported {committed_end}"
            raise InvariantViolationError("committed before it is told", detail)

    def _begins(self, partition: TopicPartition, start_offset: int, who: str) -> None:
        """Judge the start of a log that a client was given. InvariantViolationError."""
        highest = self._highest_start(self._name_of(partition))
        if start_offset > highest:
            detail = f"{partition}: {who} was told that it starts at {start_offset}, leaders had {highest}"
            raise InvariantViolationError("told start", detail)

    def logs_of(self, partition: TopicPartition) -> dict[str, ReplicaStatus]:
        """Return the logs of the replicas that are hosted now, by host."""
        name = self._name_of(partition)
        found = ((host, self._replicas.status(node_id, name)) for node_id, host in self._hosts.items())
        return {host: status for host, status in found if status is not None}

    def _out_of_range(self, partition: TopicPartition, offset: int, host: str, asked: Logs) -> None:
        """A leader there says so; when it was `asked` the logs were like that. InvariantViolationError."""
        before, now = asked.get(host), self.logs_of(partition).get(host)
        if before is None or now is None or before.leads_epoch is None:
            return
        is_same = (before.incarnation, before.leads_epoch) == (now.incarnation, now.leads_epoch)
        if is_same and now.log_start_offset <= offset <= before.log_end_offset:
            raise InvariantViolationError("out of range", f"{partition}: {host} refuses {offset}, and is {now}")

    def _refused(self, partition: TopicPartition, send: Send) -> None:
        """Judge a batch that was refused for its sequence. InvariantViolationError."""
        name = self._name_of(partition)
        if not send.wants_all or self._allowed_losses_of(name):
            return
        ends = [
            each.base_offset + len(each.values)
            for each in self._history.sends
            if each.producer_id == send.producer_id and each.partition == send.partition and each.is_acknowledged_by_all
        ]
        is_expired = bool(ends) and max(ends) <= self._highest_start(name)
        if not is_expired and not self._is_below_a_snapshot(name, send):
            detail = f"{partition}: {send.process}'s batch of sequence {send.sequence} was refused ({send.reason})"
            raise InvariantViolationError("known producers", f"{detail}, the ones before end at {ends[-1:]}")

    def _is_below_a_snapshot(self, name: TopicIdPartition, send: Send) -> bool:
        """Where a segment begins there is one, and where a log ended that was closed in order: who starts with that
        knows of no earlier batch.
        """
        segments = list(self._segments_of(name))
        batches = {
            header.base_offset: header.base_sequence
            for _, data in segments
            for header in headers_of(data)
            if header.producer_id == send.producer_id and not header.is_control
        }
        offset = next((offset for offset, sequence in batches.items() if sequence == send.sequence), None)
        later = min((each for each in batches if offset is not None and each > offset), default=None)
        snapshots = [*(base_offset for base_offset, _ in segments), *self._stopped_at.get(name, ())]
        return later is not None and any(later < offset for offset in snapshots)
