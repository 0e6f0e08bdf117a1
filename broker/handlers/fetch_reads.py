"""What a Fetch finds in each of its partitions: decide by `epoch_fetch` on the leader, by `follower_reads` on a
follower that a consumer asks, then read what was decided.

    decision                    answer
    --------------------------  -----------------------------------------------------------------------------------
    Refuse                      its error; OUT_OF_RANGE and MOVED_TO_TIERED_STORAGE with high watermark and log start
    DivergingEpoch              the diverging epoch
    ServeEmpty                  no records; the request may wait for more
    Serve                       a slice of the local log, within what is left of the request's bytes; no records for a
                                throttled follower that is not in sync, while the leader's quota is exhausted
    ReadRemote                  records from the tier

A leader that knows a better replica for a consumer in that rack names it in place of records (KIP-392). A follower that
sent an older high watermark than it could have now is answered at once (KIP-1166): consumers may be waiting for it
there. It cannot be above the end of its log, which is where it fetches.

Local partitions never wait for the tier; `tier_reads` says for how long the others do.

A partition with nothing to report may rest in its session (`Standing`) where a look would find, and do, the same until
something has moved: it is led here, its reader waits at the end, with a follower nothing is left to commit and no ISR
to change, and there was no error and nothing to repeat. What moves it notifies `leadership.resting` first.

A response that is full, or has too little room left for the next records, leaves out those of its session's partitions
of which nothing was said since their last answer (`AskedPartition.is_answered`). So a follower that catches up in
thousands of partitions costs what its fetches carry.

The first records of a response come even if they exceed its limit (KIP-74). A follower's position is noted once a
request, before its answer is made, so that the answer has the high watermark it caused.

Between a decision and the read that follows it local retention may move on: then it is decided again; the next segment
upward never takes the place of the asked offset.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final
from uuid import UUID

from ...fetcher.core import (
    DivergingEpoch,
    FetchDecision,
    FetchIsolation,
    FetchPosition,
    FollowerFetch,
    LeaderView,
    ReadRemote,
    Refuse,
    Serve,
)
from ...limited_log import LimitedLog
from ...log.core import AbortedTransaction as LoggedTransaction
from ...log.replica import LogOffsets
from ...log.segment import LogSlice
from ...protocol import OUTSIDE, CorruptRecordError, ErrorCode, KafkaError, TopicIdPartition
from ...protocol.fetch import (
    LOCAL_LOG_START_UNKNOWN,
    NO_READ_REPLICA,
    READ_COMMITTED,
    AbortedTransaction,
    AskedPartition,
    EpochEndOffset,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
)
from ...protocol.net import SLICE_ELEMENTS, TopicRights, pace
from ...protocol.wire import LeaderIdAndEpoch, Part, part_size
from ...rlm import RemoteRead
from ..core.read_replicas import ReplicaSelector, select_leader
from ..replicas.hosted_partitions import HostedPartitions
from ..replicas.leadership import Leadership
from ..replicas.partition import Partition
from ..replicas.replication_throttles import Throttle
from .tier_reads import RemoteReads, TierRead, TierReads

LOOKS_AT_ONCE: Final = 100
"""Partitions that are looked at before other work may have its turn."""
DECISIONS_MAX: Final = 3
"""How often local retention may overtake a read before it fails."""
_WRONG_BROKER: Final = frozenset(
    {ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch, ErrorCode.unknown_leader_epoch}
)
_REFUSALS: Final = (DivergingEpoch, Refuse)
_WITH_OFFSETS: Final = frozenset({ErrorCode.offset_out_of_range, ErrorCode.offset_moved_to_tiered_storage})

_log = LimitedLog(logging.getLogger(__name__))


def isolation_of(request: FetchRequest) -> FetchIsolation:
    if request.replica_id >= 0:
        return FetchIsolation.LOG_END
    if request.isolation_level == READ_COMMITTED:
        return FetchIsolation.TXN_COMMITTED
    return FetchIsolation.HIGH_WATERMARK


class Standing:
    """A partition in which a look found nothing to report, with all that this depends on, as it was then."""

    __slots__ = ("_leader_epoch", "_offsets", "leadership", "partition")

    def __init__(self, partition: Partition, offsets: LogOffsets) -> None:
        self.partition = partition
        self.leadership = partition.leadership
        self._leader_epoch = partition.leader_epoch
        self._offsets = offsets

    def has_moved(self) -> bool:
        partition = self.partition
        state, offsets = partition.log.state, self._offsets
        return (
            state.log_end_offset != offsets.log_end_offset
            or partition.leadership is not self.leadership
            or partition.leader_epoch != self._leader_epoch
            or state.offsets != offsets
        )

    def resting_place(self, wanted: FetchPartition, isolation: FetchIsolation, replica_id: int) -> Leadership | None:
        """Return the leadership in which the partition may rest; None where the next look may find something."""
        leadership = self.leadership
        if leadership is None or self.has_moved() or not self._waits_at_end(leadership, wanted, isolation, replica_id):
            return None
        return leadership

    def _waits_at_end(
        self, leadership: Leadership, wanted: FetchPartition, isolation: FetchIsolation, replica_id: int
    ) -> bool:
        """Return whether a look would find nothing to serve, to commit or to repeat, and no ISR change."""
        state, replicas = self.partition.log.state, leadership.replicas
        if isolation is FetchIsolation.TXN_COMMITTED:
            return wanted.fetch_offset >= state.offsets.last_stable_offset
        if isolation is FetchIsolation.HIGH_WATERMARK:
            return wanted.fetch_offset >= state.high_watermark
        if wanted.can_raise_to(state.high_watermark, state.log_start_offset):
            return False
        # A pending ISR change, or a replica outside the ISR: its next fetch is what decides.
        is_settled = replica_id in replicas.isr and replicas.pending_isr is None
        return is_settled and wanted.fetch_offset == state.log_end_offset == state.high_watermark


class FetchReads:
    """The looks of one request at its partitions. Release it unless the response was handed on.

    `select` chooses the replica that a consumer had better read from; None where it does not know how to. `rights`:
    what it may read, None: everything.
    """

    def __init__(
        self,
        hosted: HostedPartitions,
        remote: RemoteReads | None,
        request: FetchRequest,
        throttle: Throttle | None,
        select: ReplicaSelector | None,
        rights: TopicRights | None = None,
        connection_id: int = 0,
    ) -> None:
        self._rights = rights
        self._connection_id = connection_id
        self._hosted = hosted
        self._remote = remote
        self._request = request
        self._throttle = throttle if request.replica_id >= 0 else None
        self._knows_followers = select is not None
        self._select = None if select is select_leader else select
        """None where consumers read from the leader."""
        self._isolation = isolation_of(request)
        self._has_looked = False
        self.answers: dict[AskedPartition, FetchPartitionResponse] = {}
        self._standings: dict[AskedPartition, Standing] = {}
        """The partitions with nothing to report, not even an error."""

    def _begin(self) -> None:
        self.answers, self._standings = {}, {}
        self.hints: set[LeaderIdAndEpoch] = set()
        """Leaders that the answers name."""
        self.denied: set[AskedPartition] = set()
        """Partitions that may not be read."""
        self.size = 0
        """Bytes of records."""
        self.must_answer = False
        """Whether there is something to say without further waiting: an error, a divergence, a read of the tier."""
        self.is_tier_late = False
        """Whether the tier did not bring in time what was asked of it; it may have that soon."""
        self.held_back_until_s = math.inf
        """When, by the loop's clock, the throttle lets more through; infinite where it holds nothing back."""
        self._may_have_missed = False
        """Whether the look has waited for a file: what it found before may have moved since."""
        self._bytes_left = self._request.max_bytes
        self._is_full = False
        """Whether there is no room for the records of another partition."""
        self._replicated: list[tuple[TopicIdPartition, int]] = []
        self._tier_reads = TierReads(self._remote)

    def has_enough(self) -> bool:
        """Whether to answer without waiting for more."""
        return self.must_answer or self.size >= self._request.min_bytes

    async def look(
        self,
        partitions: Iterable[AskedPartition],
        before_tier: Callable[[set[AskedPartition]], None] | None = None,
    ) -> None:
        """Answer each partition in order; the answers of an earlier look hold for those in which nothing has moved.
        Followers' positions are noted at the first look. `before_tier` is given the partitions that wait for it.
        """
        answers, standings = self.answers, self._standings
        self._begin()
        count = 0
        try:
            for asked in partitions:
                count += 1
                if not count % LOOKS_AT_ONCE:
                    self._may_have_missed = True
                    await pace().spend(SLICE_ELEMENTS, count)
                if self._is_full and asked.is_answered:
                    continue
                standing = standings.get(asked)
                if standing is not None and not standing.has_moved():
                    self._standings[asked] = standing
                    self.answers[asked] = answers[asked]
                    continue
                self._take(asked, await self._answer(asked))
            if before_tier is not None and self._tier_reads:
                before_tier(set(self._tier_reads.awaited))
            await self._await_tier()
        finally:
            await self._tier_reads.leave()
        self._has_looked = True

    def _take(self, asked: AskedPartition, answer: FetchPartitionResponse) -> None:
        self.answers[asked] = answer
        if answer.records:
            size = part_size(answer.records)
            self.size += size
            self._bytes_left -= size
            self._is_full |= self._bytes_left <= 0

    async def _await_tier(self) -> None:
        """Wait for reads of the tier until the answer is worth sending, or all have ended."""
        while self._tier_reads and not (self.must_answer or (self.size and self.has_enough())):
            for read in await self._tier_reads.ended():
                answer = await self._answer_after(read)
                # Larger than what the request has left: it stays cached, and comes earlier in the next answer.
                if not self.size or not answer.records or part_size(answer.records) <= self._bytes_left:
                    self._take(read.asked, answer)
            if not self._tier_reads:
                self.must_answer = True

    def standing(self, asked: AskedPartition) -> Standing | None:
        """Return where a partition stood at the last look, if nothing was to report; None if it has moved since."""
        standing = self._standings.get(asked)
        if standing is not None and self._may_have_missed and standing.has_moved():
            return None
        return standing

    def may_rest(self) -> Iterator[tuple[AskedPartition, Leadership]]:
        """Yield the partitions in which another look, once the answers are sent, would find nothing until they move."""
        if self._select is not None:
            return
        for asked, standing in self._standings.items():
            leadership = standing.resting_place(asked.wanted, self._isolation, self._request.replica_id)
            if leadership is not None:
                yield asked, leadership

    def release(self) -> None:
        """Let go of all slices."""
        for answer in self.answers.values():
            if isinstance(answer.records, LogSlice):
                answer.records.release()

    def count(self) -> None:
        """The response goes out: its records count against the throttle."""
        if self._throttle is not None:
            for partition, size_bytes in self._replicated:
                self._throttle.fetched(partition, size_bytes)

    async def _answer(self, asked: AskedPartition, *, may_wait: bool = True) -> FetchPartitionResponse:
        """Answer a partition. With `may_wait`, a read of the tier that is not done yet joins `_tier_reads`."""
        topic, number = asked.key
        if self._rights is not None and not self._rights.may_read(topic):
            self.denied.add(asked)
            return FetchPartitionResponse(number, ErrorCode.topic_authorization_failed)
        notes_position = self._request.replica_id >= 0 and not self._has_looked
        try:
            partition = self._hosted.find(topic, number)
            for attempt in range(DECISIONS_MAX):
                found = await self._read(partition, asked, notes_position=notes_position and attempt == 0)
                if isinstance(found, TierRead):
                    if not found.records.done():
                        return self._put_off(found, may_wait=may_wait)
                    found = self._from_tier(found)
                if found is not None:
                    return found
            raise KafkaError(ErrorCode.not_leader_or_follower, f"{topic}-{number}: retention overtakes every read")
        except OUTSIDE as error:
            return self._answer_of_error(asked, error)

    async def _answer_after(self, read: TierRead) -> FetchPartitionResponse:
        """Answer the partition of a read of the tier that has ended."""
        try:
            found = self._from_tier(read)
        except OUTSIDE as error:
            return self._answer_of_error(read.asked, error)
        # The offset became local meanwhile. The tier is not waited for again: the reads have one deadline.
        return found or await self._answer(read.asked, may_wait=False)

    def _put_off(self, read: TierRead, *, may_wait: bool) -> FetchPartitionResponse:
        if may_wait:
            self._tier_reads.wait_for(read)
        else:
            self.must_answer = True
        return served(read.asked.wanted, read.view)

    def _answer_of_error(self, asked: AskedPartition, error: Exception) -> FetchPartitionResponse:
        topic, number = asked.key
        is_damage = isinstance(error, CorruptRecordError)
        if isinstance(error, KafkaError) and not is_damage:
            return self._failed(topic, number, error.code)
        _log.error(
            str(topic),
            "%s-%d: cannot read offset %d: %s; check the log directory's disk",
            topic,
            number,
            asked.wanted.fetch_offset,
            error,
        )
        return self._failed(topic, number, ErrorCode.corrupt_message if is_damage else ErrorCode.kafka_storage_error)

    async def _read(
        self, partition: Partition, asked: AskedPartition, *, notes_position: bool
    ) -> FetchPartitionResponse | TierRead | None:
        """Return None if the decision no longer held when it was carried out: decide again."""
        wanted = asked.wanted
        # A position is noted before the answer: it may raise the high watermark, or let the follower join the ISR.
        fetch = self._follower_fetch(wanted) if notes_position else None
        decision, view, offsets = partition.decide_fetch(
            self._position(wanted), fetch, knows_followers=self._knows_followers
        )
        if isinstance(decision, _REFUSALS):
            return self._refused(partition, view, wanted, decision)
        if partition.leadership is not None:
            answer = self._without_reading(partition, partition.leadership, view, wanted, decision)
            if answer is not None:
                return answer
        if isinstance(decision, Serve) and self._bytes_left > 0:
            return await self._from_log(partition, view, wanted, decision.max_offset)
        if isinstance(decision, ReadRemote) and self._bytes_left > 0:
            return await self._begin_tier_read(partition, view, asked, decision.max_offset)
        if self.held_back_until_s == math.inf:
            self._standings[asked] = Standing(partition, offsets)
        return served(wanted, view)

    def _follower_fetch(self, wanted: FetchPartition) -> FollowerFetch:
        local_log_start_offset = wanted.local_log_start_offset
        return FollowerFetch(
            wanted.fetch_offset,
            wanted.log_start_offset,
            self._request.replica_epoch,
            None if local_log_start_offset == LOCAL_LOG_START_UNKNOWN else local_log_start_offset,
            self._connection_id,
        )

    def _without_reading(
        self,
        partition: Partition,
        leadership: Leadership,
        view: LeaderView,
        wanted: FetchPartition,
        decision: FetchDecision,
    ) -> FetchPartitionResponse | None:
        """Return the answer in place of records, if they are better read from another replica or are throttled."""
        if self._request.replica_id >= 0 and wanted.can_raise_to(view.high_watermark, view.log_start_offset):
            self.must_answer = True
        if self._select is not None:
            preferred = leadership.preferred_read_replica(self._select, self._request.rack_id, wanted.fetch_offset)
            if preferred is not None:
                self.must_answer = True
                return replace(served(wanted, view), preferred_read_replica=preferred)
        if isinstance(decision, Serve) and self._is_held_back(partition, leadership):
            return served(wanted, view)
        return None

    def _is_held_back(self, partition: Partition, leadership: Leadership) -> bool:
        if self._throttle is None or self._request.replica_id in leadership.isr:
            return False
        wait_s = self._throttle.wait_s(partition.partition)
        if wait_s > 0:
            until_s = asyncio.get_running_loop().time() + wait_s
            self.held_back_until_s = min(self.held_back_until_s, until_s)
        return wait_s > 0

    def _position(self, wanted: FetchPartition) -> FetchPosition:
        request = self._request
        return FetchPosition(
            wanted.fetch_offset,
            wanted.current_leader_epoch,
            wanted.last_fetched_epoch,
            request.replica_id,
            request.replica_epoch,
            self._isolation,
        )

    def _refused(
        self, partition: Partition, view: LeaderView, wanted: FetchPartition, decision: DivergingEpoch | Refuse
    ) -> FetchPartitionResponse:
        self.must_answer = True
        answer = refused(wanted, view, decision)
        if isinstance(answer, ErrorCode):
            return self._failed(partition.partition.topic, wanted.partition, answer)
        return answer

    def _failed(self, topic: str | UUID, number: int, error: ErrorCode) -> FetchPartitionResponse:
        self.must_answer = True
        hint = self._hosted.leader_hint(topic, number) if error in _WRONG_BROKER else None
        if hint is not None:
            self.hints.add(hint)
        return FetchPartitionResponse(number, error_code=error, current_leader=hint)

    async def _from_log(
        self, partition: Partition, view: LeaderView, wanted: FetchPartition, max_offset: int
    ) -> FetchPartitionResponse | None:
        self._may_have_missed = True
        try:
            log_slice = await partition.log.read(
                wanted.fetch_offset,
                max_bytes=min(wanted.partition_max_bytes, self._bytes_left),
                max_offset=max_offset,
                min_one_batch=self.size == 0,
            )
        except KafkaError as error:
            # Local retention overtook this read: decide again, the offset is in the tier by now.
            if error.code is ErrorCode.offset_out_of_range:
                return None
            raise
        if not log_slice.size and self.size and self._bytes_left < wanted.partition_max_bytes:
            self._is_full = True  # the first records come whatever their size: without any, compaction left none here
        if self._throttle is not None:
            self._replicated.append((partition.partition, log_slice.size))
        if self._isolation is not FetchIsolation.TXN_COMMITTED:
            return served(wanted, view, log_slice)
        try:
            aborted = await partition.log.aborted_transactions(wanted.fetch_offset, log_slice.end_offset)
        except BaseException:
            log_slice.release()
            raise
        return served(wanted, view, log_slice, aborted)

    async def _begin_tier_read(
        self, partition: Partition, view: LeaderView, asked: AskedPartition, max_offset: int
    ) -> TierRead | FetchPartitionResponse:
        wanted = asked.wanted
        self._may_have_missed = True
        if self._tier_reads.is_full:
            return served(wanted, view)
        request = RemoteRead(
            partition=partition.partition,
            log=partition.log,
            offset=wanted.fetch_offset,
            max_bytes=min(wanted.partition_max_bytes, self._bytes_left),
            max_offset=max_offset,
            min_one_batch=self.size == 0,
            with_aborted=self._isolation is FetchIsolation.TXN_COMMITTED,
        )
        return await self._tier_reads.begin(asked, view, request)

    def _from_tier(self, read: TierRead) -> FetchPartitionResponse | None:
        """None if the offset is local by now. KafkaError, OSError as the read ended."""
        found = read.records.result()
        if found is None:
            return None
        # Also without records: a slow store must not hold the whole request beyond `max.wait.ms`.
        self.must_answer = True
        self.is_tier_late = self.is_tier_late or not found.records
        with_aborted = self._isolation is FetchIsolation.TXN_COMMITTED
        return served(read.asked.wanted, read.view, found.records, found.aborted if with_aborted else None)


# The answer of one partition, made from what was decided and read. No decision is taken here.


def served(
    wanted: FetchPartition,
    view: LeaderView,
    records: Part | None = b"",
    aborted: Iterable[LoggedTransaction] | None = None,
) -> FetchPartitionResponse:
    """Return the answer with these records; `aborted` are the aborted transactions among them for `read_committed`."""
    transactions = None
    if aborted is not None:
        transactions = tuple(AbortedTransaction(each.producer_id, each.first_offset) for each in aborted)
    return FetchPartitionResponse(
        wanted.partition,
        ErrorCode.none,
        view.high_watermark,
        view.last_stable_offset,
        view.log_start_offset,
        transactions,
        NO_READ_REPLICA,
        records,
    )


def refused(
    wanted: FetchPartition, view: LeaderView, decision: DivergingEpoch | Refuse
) -> FetchPartitionResponse | ErrorCode:
    """Return the answer of a refusal, or its error code if the answer has nothing else to say."""
    if isinstance(decision, DivergingEpoch):
        return replace(served(wanted, view), diverging_epoch=EpochEndOffset(decision.epoch, decision.end_offset))
    # With the offsets: an empty follower chooses its start from them (KIP-405).
    if decision.error in _WITH_OFFSETS:
        return FetchPartitionResponse(
            wanted.partition,
            error_code=decision.error,
            high_watermark=view.high_watermark,
            log_start_offset=view.log_start_offset,
        )
    return decision.error
