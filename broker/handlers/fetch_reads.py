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
told an older high watermark than it could have now is answered at once (KIP-1166): consumers may be waiting for it
there. It cannot be above the end of its log, which is where it fetches.

The first records of a response come even if they exceed its limit (KIP-74). A follower's position is noted once a
request, before its answer is made, so that the answer tells the high watermark it caused.

A partition may rest in its session where a look would find, and do, the same until something has moved: it is led here,
its reader waits at the end, with a follower nothing is left to commit and no ISR to change, and there was no error and
nothing to repeat. What moves it tells `leadership.resting` first.

Between a decision and the
read that follows it local retention may move on: then it is decided again; the next segment upward never takes the
place of the asked offset.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, Protocol

from ...fetcher.epoch_fetch import (
    DivergingEpoch,
    FetchDecision,
    FetchIsolation,
    FetchPosition,
    LeaderView,
    ReadRemote,
    Refuse,
    Serve,
    validate_fetch,
)
from ...fetcher.leader_replicas import FollowerFetch
from ...log import index
from ...log.slices import LogSlice
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.fetch_messages import (
    LOCAL_LOG_START_NOT_TOLD,
    READ_COMMITTED,
    AbortedTransaction,
    EpochEndOffset,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
)
from ...protocol.fetch_session import PartitionKey
from ...protocol.primitives import Part, part_size
from ...protocol.topics import TopicIdPartition
from ...rlm.reader import RemoteRead, RemoteRecords
from ..follower_reads import validate_follower_read
from ..hosted_partitions import HostedPartitions
from ..leadership import Leadership
from ..partition import Partition
from ..read_replicas import ReplicaSelector, select_leader
from ..replication_throttles import Throttle

DECISIONS_MAX: Final = 3
"""Local retention may overtake a read this often."""
_WRONG_BROKER: Final = frozenset(
    {ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch, ErrorCode.unknown_leader_epoch}
)
_OUTSIDE: Final = frozenset({ErrorCode.offset_out_of_range, ErrorCode.offset_moved_to_tiered_storage})

_log = logging.getLogger(__name__)


class RemoteReads(Protocol):
    """Reads of the tier for consumers; `rlm.reader.RemoteLogReader`."""

    async def read(self, request: RemoteRead) -> RemoteRecords | None:
        """None if the offset is local by now; no records if the tier did not answer in time. KafkaError."""


def isolation_of(request: FetchRequest) -> FetchIsolation:
    if request.replica_id >= 0:
        return FetchIsolation.LOG_END
    if request.isolation_level == READ_COMMITTED:
        return FetchIsolation.TXN_COMMITTED
    return FetchIsolation.HIGH_WATERMARK


class FetchReads:
    """One pass over the partitions of one request. Release it unless the response was handed on.

    `select` chooses the replica that a consumer had better read from; None where it does not know how to.
    """

    def __init__(
        self,
        hosted: HostedPartitions,
        remote: RemoteReads | None,
        request: FetchRequest,
        throttle: Throttle | None,
        select: ReplicaSelector | None,
    ) -> None:
        self._select = select
        self._throttle = throttle if request.replica_id >= 0 else None
        self.held_back_s = math.inf
        """Until the throttle lets more through; infinite where it holds nothing back."""
        self._replicated: list[tuple[TopicIdPartition, int]] = []
        self._hosted = hosted
        self._remote = remote
        self._request = request
        self._isolation = isolation_of(request)
        self._bytes_left = request.max_bytes
        self.answers: dict[PartitionKey, FetchPartitionResponse] = {}
        self.size = 0
        """Bytes of records."""
        self._marks: dict[PartitionKey, tuple[Partition, tuple[object, ...]]] = {}
        """Where partitions without records stood when they were looked at."""
        self.must_answer = False
        """Whether there is something to say without further waiting: an error, a divergence, a read of the tier."""

    async def run(self, partitions: Mapping[PartitionKey, FetchPartition], before: FetchReads | None = None) -> None:
        """Answer each partition in order; `before` is an earlier pass of the same request, whose answers hold for the
        partitions in which nothing has moved. Followers' positions are noted at the first pass.
        """
        for key, wanted in partitions.items():
            answer = self._still_empty(key, before) if before is not None else None
            if answer is None:
                answer = await self._answer(key, wanted, note_positions=before is None)
            size = 0 if answer.records is None else part_size(answer.records)
            self.size += size
            self._bytes_left -= size
            self.answers[key] = answer

    def _still_empty(self, key: PartitionKey, before: FetchReads) -> FetchPartitionResponse | None:
        marked = before._marks.get(key)
        if marked is None or _mark(marked[0]) != marked[1]:
            return None
        self._marks[key] = marked
        return before.answers[key]

    def holds(self, partitions: Mapping[PartitionKey, FetchPartition]) -> bool:
        """Whether a look at these, which has been made, would find the same again: no records, and nothing moved."""
        if len(self._marks) < len(partitions):
            return False
        return all(_mark(partition) == mark for partition, mark in self._marks.values())

    def may_rest(self, partitions: Mapping[PartitionKey, FetchPartition]) -> Iterator[tuple[PartitionKey, Leadership]]:
        """Those of these, once their answers are told, of which other looks would tell nothing until they move."""
        if self._select not in (None, select_leader):
            return
        for key, (partition, mark) in self._marks.items():
            leadership, answer = partition.leadership, self.answers[key]
            if leadership is None or _mark(partition) != mark:
                continue
            is_quiet = answer.error_code is ErrorCode.none and answer.diverging_epoch is None and not answer.records
            if is_quiet and self._waits_at_end(partitions[key], partition, leadership):
                yield key, leadership

    def _waits_at_end(self, wanted: FetchPartition, partition: Partition, leadership: Leadership) -> bool:
        """Where a look finds nothing to serve, to commit, or to change of the ISR, and nothing to repeat."""
        log, replicas = partition.log, leadership.replicas
        if wanted.can_raise_to(log.high_watermark):
            return False
        if self._isolation is FetchIsolation.TXN_COMMITTED:
            return wanted.fetch_offset >= log.last_stable_offset
        if self._isolation is FetchIsolation.HIGH_WATERMARK:
            return wanted.fetch_offset >= log.high_watermark
        is_settled = self._request.replica_id in replicas.isr and replicas.pending_isr is None
        return is_settled and wanted.fetch_offset == log.log_end_offset == log.high_watermark

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

    async def _answer(
        self, key: PartitionKey, wanted: FetchPartition, *, note_positions: bool
    ) -> FetchPartitionResponse:
        topic, number = key
        try:
            partition = self._hosted.find(topic, number)
            for attempt in range(DECISIONS_MAX):
                found = await self._read(partition, wanted, note_positions=note_positions and attempt == 0)
                if found is not None:
                    if not isinstance(found.records, LogSlice) and self.held_back_s == math.inf:
                        self._marks[key] = (partition, _mark(partition))
                    return found
            raise KafkaError(ErrorCode.not_leader_or_follower, f"{topic}-{number}: retention overtakes every read")
        except KafkaError as error:
            self.must_answer = True
            hint = self._hosted.leader_hint(topic, number) if error.code in _WRONG_BROKER else None
            return FetchPartitionResponse(number, error_code=error.code, current_leader=hint)
        except OSError as error:
            self.must_answer = True
            _log.error("%s-%d: a read at offset %d failed: %s", topic, number, wanted.fetch_offset, error)
            return FetchPartitionResponse(number, error_code=ErrorCode.kafka_storage_error)

    async def _read(
        self, partition: Partition, wanted: FetchPartition, *, note_positions: bool
    ) -> FetchPartitionResponse | None:
        """None if what was decided did not hold any more when it was done."""
        if partition.leadership is None and self._select is not None:
            view = partition.follower_view()
            return await self._carry_out(partition, view, wanted, validate_follower_read(view, self._position(wanted)))
        leadership = partition.leader()
        view = leadership.view_now()
        decision = validate_fetch(view, self._position(wanted))
        if isinstance(decision, Refuse | DivergingEpoch):
            return await self._carry_out(partition, view, wanted, decision)
        if note_positions and self._request.replica_id >= 0:
            leadership.record_fetch(self._request.replica_id, self._follower_fetch(wanted))
            if partition.log.high_watermark != view.high_watermark:
                view = leadership.view_now()
        self.must_answer = self.must_answer or wanted.can_raise_to(view.high_watermark)
        if self._select is not None:
            preferred = leadership.preferred_read_replica(self._select, self._request.rack_id, wanted.fetch_offset)
            if preferred is not None:
                self.must_answer = True
                return replace(_response(wanted, view), preferred_read_replica=preferred)
        if isinstance(decision, Serve) and self._is_held_back(partition, leadership):
            return _response(wanted, view)
        return await self._carry_out(partition, view, wanted, decision)

    async def _carry_out(
        self, partition: Partition, view: LeaderView, wanted: FetchPartition, decision: FetchDecision
    ) -> FetchPartitionResponse | None:
        match decision:
            case Refuse():
                self.must_answer = True
                return self._refused(partition, view, decision)
            case DivergingEpoch(epoch, end_offset):
                self.must_answer = True
                return replace(_response(wanted, view), diverging_epoch=EpochEndOffset(epoch, end_offset))
            case ReadRemote(max_offset) if self._bytes_left > 0:
                return await self._from_tier(partition, view, wanted, max_offset)
            case Serve(max_offset) if self._bytes_left > 0:
                return await self._from_log(partition, view, wanted, max_offset)
            case _:
                return _response(wanted, view)

    def _is_held_back(self, partition: Partition, leadership: Leadership) -> bool:
        if self._throttle is None or self._request.replica_id in leadership.isr:
            return False
        wait_s = self._throttle.wait_s(partition.partition)
        if wait_s > 0:
            self.held_back_s = min(self.held_back_s, wait_s)
        return wait_s > 0

    def _follower_fetch(self, wanted: FetchPartition) -> FollowerFetch:
        is_full = wanted.local_log_start_offset == LOCAL_LOG_START_NOT_TOLD
        return FollowerFetch(
            wanted.fetch_offset,
            wanted.log_start_offset,
            self._request.replica_epoch,
            None if is_full else wanted.local_log_start_offset,
        )

    def _position(self, wanted: FetchPartition) -> FetchPosition:
        return FetchPosition(
            fetch_offset=wanted.fetch_offset,
            current_leader_epoch=wanted.current_leader_epoch,
            last_fetched_epoch=wanted.last_fetched_epoch,
            replica_id=self._request.replica_id,
            broker_epoch=self._request.replica_epoch,
            isolation=self._isolation,
        )

    def _refused(self, partition: Partition, view: LeaderView, refusal: Refuse) -> FetchPartitionResponse:
        number = partition.partition.partition
        if refusal.error in _OUTSIDE:
            return FetchPartitionResponse(
                number,
                error_code=refusal.error,
                high_watermark=view.high_watermark,
                log_start_offset=view.log_start_offset,
            )
        hint = None
        if refusal.error in _WRONG_BROKER:
            hint = self._hosted.leader_hint(partition.partition.topic, number)
        return FetchPartitionResponse(number, error_code=refusal.error, current_leader=hint)

    async def _from_log(
        self, partition: Partition, view: LeaderView, wanted: FetchPartition, max_offset: int
    ) -> FetchPartitionResponse | None:
        try:
            log_slice = await partition.log.read(
                wanted.fetch_offset,
                max_bytes=min(wanted.partition_max_bytes, self._bytes_left),
                max_offset=max_offset,
                min_one_batch=self.size == 0,
            )
        except KafkaError as error:
            if error.code is ErrorCode.offset_out_of_range:
                return None
            raise
        self._replicated.append((partition.partition, log_slice.size))
        if self._isolation is not FetchIsolation.TXN_COMMITTED:
            return _response(wanted, view, log_slice)
        try:
            aborted = await partition.log.aborted_transactions(wanted.fetch_offset, log_slice.end_offset)
        except BaseException:
            log_slice.release()
            raise
        return _response(wanted, view, log_slice, _aborted(aborted))

    async def _from_tier(
        self, partition: Partition, view: LeaderView, wanted: FetchPartition, max_offset: int
    ) -> FetchPartitionResponse | None:
        if self._remote is None:
            raise KafkaError(
                ErrorCode.kafka_storage_error,
                f"{partition.partition.topic_partition}: offset {wanted.fetch_offset} is in the tier, and this broker "
                "has none (remote.log.storage.system.enable)",
            )
        with_aborted = self._isolation is FetchIsolation.TXN_COMMITTED
        found = await self._remote.read(
            RemoteRead(
                partition=partition.partition,
                log=partition.log,
                offset=wanted.fetch_offset,
                max_bytes=min(wanted.partition_max_bytes, self._bytes_left),
                max_offset=max_offset,
                min_one_batch=self.size == 0,
                with_aborted=with_aborted,
            )
        )
        if found is None:
            return None
        self.must_answer = True
        return _response(wanted, view, found.records, _aborted(found.aborted) if with_aborted else None)


def _mark(partition: Partition) -> tuple[object, ...]:
    """Whatever an answer without records depends on."""
    return partition.leadership, partition.leader_epoch, partition.log.offsets


def _aborted(transactions: Iterable[index.AbortedTransaction]) -> tuple[AbortedTransaction, ...]:
    return tuple(AbortedTransaction(each.producer_id, each.first_offset) for each in transactions)


def _response(
    wanted: FetchPartition,
    view: LeaderView,
    records: Part | None = b"",
    aborted: tuple[AbortedTransaction, ...] | None = None,
) -> FetchPartitionResponse:
    return FetchPartitionResponse(
        wanted.partition,
        high_watermark=view.high_watermark,
        last_stable_offset=view.last_stable_offset,
        log_start_offset=view.log_start_offset,
        aborted_transactions=aborted,
        records=records,
    )
