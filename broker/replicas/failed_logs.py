"""Replicas whose log has failed, or could not be opened: out of the ISR at once, and back when they can append again.

| state  | what holds                                                 | left by                                        |
|--------|------------------------------------------------------------|------------------------------------------------|
| FAILED | nothing is taken or served; LOST is reported               | opened again: OPEN                             |
| OPEN   | read back whole; retention works on it; nothing is served  | a trial append that succeeds: PROVEN; the log  |
|        |                                                            | fails: FAILED                                  |
| PROVEN | it takes appends; nothing is served                        | `obstacle` is None: its directory is reported, |
|        |                                                            | and it serves                                  |

A failure touches its own partition only: LOST (KIP-858) takes this replica out of the ISR, and has another one lead
under the next leader epoch, or nobody if it is the last member. Then it returns as any replica does.

Invariants: a log that was led is not led again under an epoch in which it was hosted, for its followers could not see
where it diverges. A log is served only once the image says that its replica is lost and out of the ISR: nobody counts
on what it had acknowledged. A log that came back shorter than it had been is followed, but leads nothing unless it is
elected while it counts as lost: by an operator, uncleanly.

The next attempt follows the first failure at once, and each further one after a pause that doubles, with jitter. A log
that lasts for `FORGIVEN_S` begins again. So a disk that fails now and then moves a replica in and out at most once a
pause, and a tail that was not flushed is read again as rarely.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from random import Random
from typing import Final

from ...controller import LOST_DIRECTORY
from ...light_dataclass import dataclass
from ...log import PartitionLog
from ...log.keeper import LogManager
from ...protocol import OUTSIDE, ErrorCode, KafkaError, TopicIdPartition, TopicPartition, describe_error
from ...remote import Backoff
from ..cluster.view import NO_LEADER, PartitionRegistration
from .hosted_partitions import LogFailures
from .partition import Partition

RETRY_MIN_MS: Final = 1000
RETRY_MAX_MS: Final = 30_000
JITTER: Final = 0.2
FORGIVEN_S: Final = 60.0
NO_EPOCH: Final = -1

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class FailedLog:
    """`last_epoch`: the newest leader epoch under which this process may have led or followed with the log, NO_EPOCH if
    it never did. The offsets are those that others had seen by then.
    """

    last_epoch: int
    log_end_offset: int
    high_watermark: int
    append_bytes: int
    is_proven: bool = False
    lost_records: int = 0
    """The records that were there when the log failed, and are not since it was opened again."""


@dataclass(slots=True)
class _Attempts:
    backoff: Backoff
    due_s: float
    failed_s: float
    reason: str = ""
    timer: asyncio.TimerHandle | None = None


def obstacle(failed: FailedLog, registration: PartitionRegistration, node_id: int) -> str | None:
    """Return why a log that takes appends again may not be served yet; None if it may."""
    if failed.last_epoch == NO_EPOCH:
        return None
    is_leader, is_led = registration.leader == node_id, registration.leader != NO_LEADER
    # As the leader of an epoch in which the log failed, its followers could not see where it diverges.
    is_counted_on = (
        registration.leader_epoch <= failed.last_epoch if is_leader else is_led and node_id in registration.isr
    )
    if registration.directory_of(node_id) != LOST_DIRECTORY or is_counted_on:
        return "its log has failed, and the controller has not taken the replica out of the ISR yet"
    # The shorter log would become the truth of all replicas: that is for an operator to accept.
    if failed.lost_records and not is_led:
        return (
            f"its log has failed and lost {failed.lost_records} records, and no other replica leads: start a replica "
            f"that has them, or accept the loss: kafka-leader-election --election-type unclean"
        )
    return None


class FailedLogs:
    """The failed logs of one broker. `on_due` is called when it is time to `retry`; `totals` are for metrics."""

    def __init__(
        self, logs: LogManager, node_id: int, rng: Random, on_due: Callable[[], None], totals: LogFailures
    ) -> None:
        self._logs = logs
        self._node_id = node_id
        self._rng = rng
        self._on_due = on_due
        self._failed: dict[TopicIdPartition, FailedLog] = {}
        self._attempts: dict[TopicIdPartition, _Attempts] = {}
        """The attempts of each log, also of logs that serve again."""
        self._totals = totals

    def __contains__(self, key: TopicIdPartition) -> bool:
        return key in self._failed

    def last_epoch(self, key: TopicIdPartition) -> int:
        """See `FailedLog`."""
        failed = self._failed.get(key)
        return NO_EPOCH if failed is None else failed.last_epoch

    def add(self, partition: Partition, reason: str) -> None:
        """The log of a hosted replica has failed, or refuses what its role needs."""
        log = partition.log
        failed = FailedLog(
            partition.leader_epoch, log.state.log_end_offset, log.state.high_watermark, log.state.failed_append_bytes
        )
        self._totals.count += 1
        self._add(partition.partition, failed)
        _log.error(
            "%s is out of service: its log failed at offset %d: %s; check the disk of its log directory",
            partition.partition.topic_partition,
            log.state.log_end_offset,
            reason,
        )

    def add_unopened(self, key: TopicIdPartition) -> None:
        """A log could not be opened, by a disk that may recover."""
        if key not in self._failed:
            self._add(key, FailedLog(NO_EPOCH, 0, 0, 0))

    def forget(self, name: TopicPartition) -> None:
        """The log was deleted, or put aside."""
        for key in [key for key in self._attempts if key.topic_partition == name]:
            self._failed.pop(key, None)
            self._stop(self._attempts.pop(key))

    def close(self) -> None:
        for attempts in self._attempts.values():
            self._stop(attempts)

    async def retry(self, key: TopicIdPartition, registrations: Iterable[PartitionRegistration]) -> None:
        """Returns once the log may be served by each of the registrations, and has failed no longer. KafkaError,
        CorruptFileError, CorruptLogError or OSError until then; at once while the next attempt is not due.
        """
        failed = self._failed[key]
        if not failed.is_proven or self._open_log(key) is None:
            failed.is_proven = False
            await self._attempt(key, failed)
        # The image may have moved on meanwhile: neither state of the cluster may count on this replica.
        for registration in registrations:
            reason = obstacle(failed, registration, self._node_id)
            if reason is not None:
                raise KafkaError(ErrorCode.kafka_storage_error, reason)
        del self._failed[key]
        _log.warning("%s: its log takes appends again", key.topic_partition)

    async def _attempt(self, key: TopicIdPartition, failed: FailedLog) -> None:
        attempts = self._attempts[key]
        if asyncio.get_running_loop().time() < attempts.due_s:
            raise KafkaError(ErrorCode.kafka_storage_error, attempts.reason)
        try:
            self._compare(key, failed, self._open_log(key) or await self._logs.reopen(key.topic_partition))
            # A disk that reads may still not write: a replica joins the ISR only after an append has succeeded.
            await self._logs.try_append(key.topic_partition, failed.append_bytes)
        except OUTSIDE as error:
            attempts.reason = error.message if isinstance(error, KafkaError) else describe_error(error)
            self._put_off(attempts)
            raise
        failed.is_proven = True

    def _open_log(self, key: TopicIdPartition) -> PartitionLog | None:
        try:
            log = self._logs.get(key.topic_partition)
        except KafkaError:
            return None
        return None if log is None or log.state.failure is not None else log

    def _compare(self, key: TopicIdPartition, failed: FailedLog, log: PartitionLog) -> None:
        """Compare what others have seen of the log with what is there."""
        lost = max(0, failed.log_end_offset - log.state.log_end_offset)
        if lost <= failed.lost_records:
            return
        self._totals.lost_records += lost - failed.lost_records
        failed.lost_records = lost
        _log.error(
            "%s: its disk has lost %d records (offsets %d to %d), %d of them committed; the log ends at %d now",
            key.topic_partition,
            lost,
            log.state.log_end_offset,
            failed.log_end_offset - 1,
            max(0, failed.high_watermark - log.state.log_end_offset),
            log.state.log_end_offset,
        )

    def _add(self, key: TopicIdPartition, failed: FailedLog) -> None:
        self._failed[key] = failed
        now_s = asyncio.get_running_loop().time()
        attempts = self._attempts.get(key)
        if attempts is None or now_s - attempts.failed_s >= FORGIVEN_S:
            if attempts is not None:
                self._stop(attempts)
            self._attempts[key] = _Attempts(Backoff(RETRY_MIN_MS, RETRY_MAX_MS, JITTER, self._rng), now_s, now_s)
        else:
            attempts.reason = "its log has failed again"
            self._put_off(attempts)

    def _put_off(self, attempts: _Attempts) -> None:
        loop = asyncio.get_running_loop()
        attempts.failed_s = loop.time()
        attempts.due_s = attempts.failed_s + attempts.backoff.next_delay_ms() / 1000
        self._stop(attempts)
        attempts.timer = loop.call_at(attempts.due_s, self._on_due)

    @staticmethod
    def _stop(attempts: _Attempts) -> None:
        if attempts.timer is not None:
            attempts.timer.cancel()
