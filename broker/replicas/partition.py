"""A hosted replica in a role: leader of one epoch, follower, or neither while its leader is not known.

    role        produce, fetch, ListOffsets             replication
    ----------  --------------------------------------  ------------------------------------------------------
    leader      served, by `leadership`                 answers its followers
    follower    NOT_LEADER_OR_FOLLOWER, but for fetches a fetcher appends; it stops before the replica leads
                of consumers that know what a follower
                is (KIP-392): `follower_reads`
    idle        the same                                none

A new leader notes its epoch, at its log end, before it serves anything (also without data: its followers ask for that
epoch). A request that waits for offsets of a leadership that ended fails at once. Which role and when is
decided by the replica manager, one change at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, NamedTuple, Protocol

from ...fetcher.core import FetchPosition, FollowerFetch
from ...log import InOrder, LogAppendInfo, PartitionLog
from ...log.core import AppendOrigin, check_size
from ...protocol import ErrorCode, KafkaError, TopicIdPartition, TopicPartition
from ...protocol.records import decompressed_bytes_max
from ..cluster.view import PartitionRegistration
from ..core.follower_reads import validate_follower_read
from ..core.recompression import KEEP, recompressed
from ..core.write_rules import verdict
from .delayed import OffsetWaiters, Sleepers
from .leadership import DecidedFetch, Leadership, PartitionServices, view_of


class TransactionAppend(NamedTuple):
    """What a log has to know of a transactional batch: the `version` of the transaction that a marker ends, the
    `guard` of a batch that was verified (KIP-890).
    """

    version: int = 0
    guard: object | None = None


PLAIN: Final = TransactionAppend()


class Partition:
    """`log` may be exchanged while the replica follows (`replace_log`), never while it leads."""

    def __init__(
        self,
        partition: TopicIdPartition,
        log: PartitionLog,
        services: PartitionServices,
        listener: ReplicaListener,
    ) -> None:
        self.partition = partition
        self.log = log
        self.registration: PartitionRegistration | None = None
        self.leadership: Leadership | None = None
        self._was_in_isr = False
        """Whether the replica was in the ISR since it has this log."""
        self.is_log_being_replaced = False
        """The old log is closed already, which is no failure."""
        self.log_end_news = Sleepers()
        """Wakes followers that fetch: the log has grown, or leadership ended."""
        self.high_watermark_news = Sleepers()
        """Wakes consumers that fetch: the high watermark rose, or leadership ended."""
        self.stable_news = Sleepers()
        """Wakes those that read no open transaction: the last stable offset moved, or leadership began or ended."""
        self.low_watermark_news = Sleepers()
        """Wakes DeleteRecords: a follower's log start rose, or the ISR changed, or leadership ended."""
        self._services = services
        self._listener = listener
        self._committed = OffsetWaiters()
        self._recompression = InOrder()
        """Keeps appends that wait for a thread in their order."""
        self._ends = (-1, -1)
        """The log's end and its settled end as a leader last saw them."""
        self._high_watermark = log.state.high_watermark
        """The high watermark as a follower last saw it."""
        self._last_stable_offset = log.state.last_stable_offset
        """As consumers were last woken for it."""
        self._listen()

    @property
    def leader_epoch(self) -> int:
        """As the cluster's metadata has it now, -1 before the first."""
        return self.registration.leader_epoch if self.registration is not None else -1

    @property
    def has_failed(self) -> bool:
        """Whether the log no longer takes or serves anything, and has to be opened again."""
        return self.log.state.failure is not None and not self.is_log_being_replaced

    @property
    def is_in_isr(self) -> bool:
        """As the cluster's metadata has it now."""
        return self.registration is not None and self._services.node_id in self.registration.isr

    @property
    def is_never_in_isr(self) -> bool:
        """Not once in the ISR since state was adopted from the tier, by this process or an earlier one."""
        return self.log.state.is_adopted and not self._was_in_isr

    def leader(self) -> Leadership:
        """Return the leadership. Raise NOT_LEADER_OR_FOLLOWER unless this replica leads."""
        if self.leadership is None:
            raise self._not_leader()
        return self.leadership

    def decide_fetch(
        self, position: FetchPosition, fetch: FollowerFetch | None, *, knows_followers: bool
    ) -> DecidedFetch:
        """Decide a Fetch in the present role, and note a follower's `fetch`. Raise NOT_LEADER_OR_FOLLOWER where this
        replica cannot be read, or is about to lead, and for a client that does not know that a follower may be read
        from (KIP-392).
        """
        if self.leadership is not None:
            return self.leadership.decide_fetch(position, fetch)
        registration, state = self.registration, self.log.state
        is_about_to_lead = registration is not None and registration.leader == self._services.node_id
        is_readable = not is_about_to_lead and not self.is_log_being_replaced and state.log_start_known
        if registration is None or not knows_followers or not is_readable:
            raise self._not_leader()
        offsets = state.offsets
        view = view_of(registration.leader_epoch, state.epochs, offsets, offsets.log_end_offset, {})
        return DecidedFetch(validate_follower_read(view, position), view, offsets)

    # -- roles --------------------------------------------------------------------------------------------------------

    async def lead(self, registration: PartitionRegistration) -> None:
        """Become the leader of the registration's epoch; its fetcher has stopped."""
        await self._end_leadership()
        # Before anything is served: followers ask for this epoch.
        await self.log.assign_epoch(registration.leader_epoch)
        self.leadership = Leadership(self.partition, self.log, registration, self._services, self)
        self._ends = (self.log.state.log_end_offset, self.log.state.settled_end_offset)
        self._listener.role_changed(self)
        self.note_registration(registration)
        self.high_watermark_changed()
        self.stable_news.wake()  # they may wait at a follower, which this no longer is

    async def step_down(self, registration: PartitionRegistration | None) -> None:
        """Resign; a fetcher may be started afterwards: the log's end that it reports is stored."""
        if registration is not None:
            self.note_registration(registration)
            # An append under the old epoch that still waits must fail: the new leader knows nothing of it.
            self.log.reject_leaders_below(registration.leader_epoch)
        await self._end_leadership()
        await self.log.settle()

    def note_registration(self, registration: PartitionRegistration) -> None:
        """Take note of what the cluster knows now, which may be ahead of the role that is being changed."""
        self.registration = registration
        self._was_in_isr = self._was_in_isr or self.is_in_isr
        leadership = self.leadership
        if leadership is not None and registration.leader_epoch == leadership.leader_epoch:
            leadership.on_registration(registration)

    def on_config(self) -> None:
        """The log's configuration has changed."""
        if self.leadership is not None:
            self.leadership.on_config()

    def replace_log(self, log: PartitionLog) -> None:
        """Continue with another log in place of the one that was deleted (state was adopted from the tier)."""
        assert self.leadership is None, f"{self.partition}: the log of a leader is never replaced"
        self._stop_listening()
        self.log = log
        self._was_in_isr = self.is_in_isr
        self._high_watermark = log.state.high_watermark
        self._last_stable_offset = log.state.last_stable_offset
        self._listen()

    async def close(self) -> None:
        await self._end_leadership()
        self._stop_listening()

    def _listen(self) -> None:
        self.log.state.listeners.append(self._on_offsets)
        self.log.state.failure_listeners.append(self._on_failure)

    def _stop_listening(self) -> None:
        self.log.state.listeners.remove(self._on_offsets)
        self.log.state.failure_listeners.remove(self._on_failure)

    # -- leader -------------------------------------------------------------------------------------------------------

    async def append(
        self, data: memoryview, origin: AppendOrigin, *, acks_all: bool, transaction: TransactionAppend = PLAIN
    ) -> LogAppendInfo:
        """Append one batch as the leader. KafkaError otherwise; with `acks_all` also while the ISR is too small."""
        leadership = self.leader()
        if origin is AppendOrigin.CLIENT and not self.log.state.keeper.accepts_clients:
            raise KafkaError(
                ErrorCode.kafka_storage_error,
                f"{self.partition.topic_partition}: the disk of its log directory on this leader is almost full"
                " (log.dir.free.bytes.min): try again when there is room",
            )
        # Before the append: a batch that is rejected must not be in the log, where its retry would double it.
        if acks_all and leadership.replicas.is_under_min_isr:
            raise KafkaError(
                ErrorCode.not_enough_replicas,
                f"{self.partition.topic_partition}: ISR {sorted(leadership.isr)}, "
                f"min.insync.replicas is {leadership.replicas.min_insync_replicas}",
            )
        keeper = self.log.state.keeper
        try:
            # From the check of the room to here without an await: what comes at the same time must find it taken.
            with keeper.writing(len(data)):
                if origin is AppendOrigin.CLIENT and (self._recompresses or not self._recompression.is_empty):
                    # Threads end in any order; sequence numbers of one producer must not.
                    async with self._recompression:
                        written = await self._recompressed(data)
                    # No wait in between: the log keeps the order in which batches come to it.
                    with keeper.writing(max(0, len(written) - len(data))):
                        return await self._append(written, leadership, origin, transaction)
                return await self._append(data, leadership, origin, transaction)
        except KafkaError as error:
            raise verdict(error, is_heard=self._services.view.is_heard) from error

    @property
    def _recompresses(self) -> bool:
        return self.log.state.config.compression_type != KEEP

    async def _recompressed(self, data: memoryview) -> memoryview:
        if not self._recompresses:
            return data
        config = self.log.state.config
        check_size(len(data), config)
        bytes_max = decompressed_bytes_max(config.max_message_bytes)
        return await asyncio.to_thread(recompressed, data, config.compression_type, bytes_max)

    def _append(
        self, data: memoryview, leadership: Leadership, origin: AppendOrigin, transaction: TransactionAppend
    ) -> Awaitable[LogAppendInfo]:
        return self.log.append_as_leader(
            data,
            leader_epoch=leadership.leader_epoch,
            now_ms=self._services.now_ms(),
            origin=origin,
            transaction_version=transaction.version,
            guard=transaction.guard,
        )

    def committed(self, end_offset: int, leader_epoch: int) -> asyncio.Future[None] | None:
        """None if everything below `end_offset`, which is of `leader_epoch` or was there before, is committed; else a
        future for that. NOT_LEADER_OR_FOLLOWER when that leadership is over, also if this broker leads again: the same
        offsets may hold other records by then.

        Cancel the future to give up.
        """
        leadership = self.leader()
        # The epoch may have changed while the append was in progress; the batch can have been truncated since.
        if leadership.leader_epoch != leader_epoch:
            raise KafkaError(
                ErrorCode.not_leader_or_follower,
                f"{self.partition.topic_partition} was appended to under leader epoch {leader_epoch}, and is led under "
                f"{leadership.leader_epoch} by now",
            )
        return None if self.log.state.high_watermark >= end_offset else self._committed.wait_for(end_offset)

    # -- events -------------------------------------------------------------------------------------------------------

    def _on_failure(self) -> None:
        if self.has_failed:
            self._listener.log_failed(self)

    def _on_offsets(self) -> None:
        """An offset of the log has moved."""
        leadership, log = self.leadership, self.log
        if leadership is None:
            if log.state.high_watermark != self._high_watermark:
                self._high_watermark = log.state.high_watermark
                self._wake_consumers()
            return
        leadership.resting.wake()
        before, self._ends = self._ends, (log.state.log_end_offset, log.state.settled_end_offset)
        if self._ends == before:
            return
        leadership.advance_high_watermark()
        if self._ends[0] != before[0]:
            self.log_end_news.wake()

    def high_watermark_changed(self) -> None:
        """Wake the requests that wait for a commit (`LeadershipListener`)."""
        self._committed.advance(self.log.state.high_watermark)
        self._wake_consumers()
        self.low_watermark_news.wake()

    def _wake_consumers(self) -> None:
        self.high_watermark_news.wake()
        last_stable_offset = self.log.state.last_stable_offset
        if last_stable_offset != self._last_stable_offset:
            self._last_stable_offset = last_stable_offset
            self.stable_news.wake()

    def low_watermark_changed(self) -> None:
        """Wake DeleteRecords, and report it (`LeadershipListener`)."""
        self.low_watermark_news.wake()
        self._listener.low_watermark_raised(self)

    async def _end_leadership(self) -> None:
        # First: whatever wakes below must not find a leadership that can still acknowledge.
        leadership, self.leadership = self.leadership, None
        if leadership is not None:
            self._listener.role_changed(self)
            leadership.resting.wake()
            self._committed.fail(self._not_leader())
            for news in (self.high_watermark_news, self.stable_news, self.log_end_news, self.low_watermark_news):
                news.wake()
            await leadership.close()

    def _not_leader(self) -> KafkaError:
        leader = self.registration.leader if self.registration is not None else -1
        return KafkaError(
            ErrorCode.not_leader_or_follower,
            f"{self.partition.topic_partition}: broker {self._services.node_id} does not lead it, broker {leader} does"
            if leader >= 0
            else f"{self.partition.topic_partition} has no leader",
        )


class ReplicaListener(Protocol):
    """The owner of hosted replicas, notified of what happens to them. Calls do not wait."""

    def role_changed(self, partition: Partition) -> None:
        """A leadership has begun, or has ended."""

    def low_watermark_raised(self, partition: Partition) -> None:
        """A follower's log start rose, so that the low watermark of this leader may have."""

    def log_failed(self, partition: Partition) -> None:
        """The log fails at this instant."""

    def log_replaced(self, partition: Partition) -> None:
        """The replica has a new log, with state from the tier."""


class RoleListeners:
    """Several parts that begin and end with leaderships, notified one after the other."""

    def __init__(self, *listeners: RoleListener) -> None:
        self._listeners = listeners

    def led(self, partition: Partition) -> None:
        for listener in self._listeners:
            listener.led(partition)

    def resigned(self, partition: TopicPartition) -> None:
        for listener in self._listeners:
            listener.resigned(partition)


class RoleListener(Protocol):
    """A part of the broker that begins and ends with this broker's leadership of a partition."""

    def led(self, partition: Partition) -> None:
        """This broker leads the partition under a new epoch."""

    def resigned(self, partition: TopicPartition) -> None:
        """This broker no longer leads the partition, or never did."""
