"""What one ShareFetch finds: it reads where each share-partition is next, and acquires what the member may have.

    look --> nothing to acquire, or less than `min.bytes` --> sleep --> news, or `max.wait.ms` is over --> look
         --> acquired within `max.records`, or an error --> answer

| a share-partition | this look |
|---|---|
| cannot be read: not led here, not allowed, its state cannot be loaded | its error; the answer leaves at once |
| the same, and that was reported in its session (`core.sessions`) | passed over, until it has to be reported again |
| is being loaded, or read by another fetch; all its locks are taken | passed over, until it has news |
| else | read from its next offset on |

Each has an equal share of the request's bytes (KIP-932). The log is read by `FetchReads`, as for any consumer: from the
tier too; while that is waited for, other fetches may read where this one found nothing. What the tier does not bring
in time (`remote.fetch.max.wait.ms`) is looked for again while the request waits. What was read and is not acquired is
not sent. Where the log start has overtaken the offset, or the log has become shorter, nothing is answered: the next
look reads elsewhere, or when the log has grown.

A throttled member is sent nothing, and what it was to be sent is not acquired.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import field
from math import inf
from typing import Final, Protocol

from ...light_dataclass import dataclass
from ...log.segment import LogSlice
from ...protocol import OUTSIDE, ErrorCode, KafkaError
from ...protocol.fetch import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    AskedPartition,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    PartitionKey,
)
from ...protocol.net import SLICE_ELEMENTS, RequestContext, pace
from ...protocol.wire import Part, part_size
from ..handlers.fetch_reads import FetchReads
from ..handlers.tier_reads import RemoteReads
from ..replicas.delayed import Sleepers, Wakeup
from ..replicas.hosted_partitions import HostedPartitions
from .core.partition import AcquiredRecords, AcquireLimits
from .core.sessions import SharedPartition, ShareSession
from .live import LiveSharePartition
from .partitions import SharePartitions
from .persister import ShareKey
from .reading import ReadBatch, kept, read_batches

PARTITION_BYTES_MAX: Final = 8 * 1024 * 1024
"""What is read of one partition at once."""
PARTITIONS_AT_ONCE: Final = 200
"""The partitions that are looked at, or answered, before other work may have its turn."""
TIER_AGAIN_S: Final = 0.1
"""When a fetch looks again for what the tier did not bring in time: that is fetched on, and kept."""
_READ_ELSEWHERE: Final = frozenset({ErrorCode.offset_out_of_range, ErrorCode.offset_moved_to_tiered_storage})


async def turn_of(number: int) -> None:
    """Wait for the turn of a request's n-th partition, within the loop's share; the first ones cost nothing."""
    if number and not number % PARTITIONS_AT_ONCE:
        await pace().spend(SLICE_ELEMENTS, number * SLICE_ELEMENTS // PARTITIONS_AT_ONCE)


class ShareQuota(Protocol):
    """What a member may be sent; `quotas.clients`."""

    def fetch_bytes_max(self, context: RequestContext) -> int | None:
        """Return how many bytes may be sent at once; None: any number."""

    def throttle_fetch(self, context: RequestContext, size: int) -> int:
        """Record what is about to be sent; or return for how many milliseconds the member has to wait for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareWants:
    """What a request asks for, within the limits of the broker and the quota of its client."""

    member: str
    group_id: str
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    limits: AcquireLimits


@dataclass(slots=True)
class Found:
    """What is answered of a partition: records that were acquired, or an error."""

    error: KafkaError | None = None
    records: Part = b""
    acquired: tuple[AcquiredRecords, ...] = ()

    def release(self) -> None:
        """Let go of the records."""
        if isinstance(self.records, LogSlice):
            self.records.release()


@dataclass(slots=True)
class FoundAll:
    """What is answered of all partitions; `throttle_ms` if the member has to wait for it."""

    partitions: dict[SharedPartition, Found] = field(default_factory=dict)
    throttle_ms: int = 0

    def release(self) -> None:
        """Let go of all records."""
        for found in self.partitions.values():
            found.release()


@dataclass(slots=True, eq=False)
class _Candidate:
    """A share-partition that this look reads."""

    shared: SharedPartition
    live: LiveSharePartition
    offset: int
    reading: ExitStack
    """Others do not read it until this is closed."""
    records: Part = b""
    batches: Sequence[ReadBatch] = ()


class ShareFetching:
    """The looks of all requests."""

    def __init__(
        self,
        hosted: HostedPartitions,
        remote: RemoteReads | None,
        shares: SharePartitions,
        quota: ShareQuota | None,
    ) -> None:
        self._hosted = hosted
        self._remote = remote
        self._shares = shares
        self._quota = quota

    async def fetch(self, context: RequestContext, wants: ShareWants, session: ShareSession) -> FoundAll:
        """Return what the member is sent of the partitions of its session."""
        look = _ShareLook(self._hosted, self._remote, self._shares, self._quota, context, wants, session)
        partitions, loop = session.turn(), asyncio.get_running_loop()
        deadline_s = loop.time() + wants.max_wait_ms / 1000
        while True:
            is_last = loop.time() >= deadline_s
            try:
                found = await look.look(partitions, is_last=is_last)
                is_over = is_last or (look.is_tier_late and loop.time() >= deadline_s)
                if is_over or found.partitions or found.throttle_ms:
                    look.note_reported(found)
                    return found
                await look.wakeup.wait(min(deadline_s, look.again_s))
            finally:
                look.end()


class _ShareLook:
    """One request. Each look begins a sleep; `end` ends it."""

    def __init__(
        self,
        hosted: HostedPartitions,
        remote: RemoteReads | None,
        shares: SharePartitions,
        quota: ShareQuota | None,
        context: RequestContext,
        wants: ShareWants,
        session: ShareSession,
    ) -> None:
        self._hosted = hosted
        self._remote = remote
        self._shares = shares
        self._quota = quota
        self._context = context
        self._wants = wants
        self._session = session
        self._isolation = READ_COMMITTED if shares.settings_of(wants.group_id).is_read_committed else READ_UNCOMMITTED
        self._waited_for: dict[SharedPartition, LiveSharePartition] = {}
        """The share-partitions that were being loaded at an earlier look."""
        self.wakeup = Wakeup()
        self.again_s = inf
        """When, by the loop's clock, an error that was passed over has to be reported again, or the tier may have what
        it did not bring in time.
        """
        self.is_tier_late = False
        """Whether this look has waited for the tier in vain."""
        self._on: list[Sleepers] = []

    async def look(self, partitions: Iterable[SharedPartition], *, is_last: bool) -> FoundAll:
        """Return the answer; nothing while there is less than the request waits for."""
        self.wakeup, self.again_s, self.is_tier_late = Wakeup(), inf, False
        found = FoundAll()
        with ExitStack() as reading:
            candidates: list[_Candidate] = []
            for number, shared in enumerate(partitions):
                await turn_of(number)
                try:
                    candidate = self._candidate(shared)
                except KafkaError as error:
                    self._fail(shared, error, found)
                    continue
                if candidate is not None:
                    reading.enter_context(candidate.reading)
                    candidates.append(candidate)
            if candidates:
                await self._read(candidates, found, is_last=is_last or bool(found.partitions))
        return found

    def _fail(self, shared: SharedPartition, error: KafkaError, found: FoundAll) -> None:
        until_s = self._session.reported_until_s(shared, error.code, asyncio.get_running_loop().time())
        if until_s is None:
            found.partitions[shared] = Found(error)
        else:
            self.again_s = min(self.again_s, until_s)

    def note_reported(self, found: FoundAll) -> None:
        """The answer leaves, with its errors."""
        now_s = asyncio.get_running_loop().time()
        for shared, each in found.partitions.items():
            if each.error is not None:
                self._session.note_reported(shared, each.error.code, now_s)

    def end(self) -> None:
        """No longer sleep."""
        for news in self._on:
            news.discard(self.wakeup)
        self._on.clear()

    def _candidate(self, shared: SharedPartition) -> _Candidate | None:
        """Return a share-partition to be read; None for one that has to be waited for. Raise KafkaError."""
        rights = self._context.rights
        if rights is not None and not rights.may_read(shared.topic_id):
            raise KafkaError(ErrorCode.topic_authorization_failed, "Topic authorization failed.")
        partition = self._hosted.find(*shared)
        partition.leader()
        waited_for = self._waited_for.pop(shared, None)
        if waited_for is not None and waited_for.closed is not None:
            raise waited_for.closed
        live = self._shares.of(ShareKey(self._wants.group_id, *shared), partition)
        self._sleep_on(live.news)
        if live.machine is None:
            self._waited_for[shared] = live
            return None
        if live.is_being_read:
            self._sleep_on(live.turns)
            return None
        # Before it is read: what comes meanwhile must wake this request.
        self._sleep_on(partition.high_watermark_news)
        offset = live.fetch_offset()
        if not live.can_acquire():
            return None
        reading = ExitStack()
        reading.enter_context(live.reading())
        return _Candidate(shared, live, offset, reading)

    def _sleep_on(self, news: Sleepers) -> None:
        news.add(self.wakeup)
        self._on.append(news)

    async def _read(self, candidates: list[_Candidate], found: FoundAll, *, is_last: bool) -> None:
        wants = self._wants
        bytes_max = max(1, min(wants.max_bytes // len(candidates), PARTITION_BYTES_MAX))
        request = FetchRequest(
            wants.max_wait_ms, wants.min_bytes, (), max_bytes=wants.max_bytes, isolation_level=self._isolation
        )
        asked = [
            AskedPartition(
                PartitionKey(*each.shared),
                FetchPartition(each.shared.number, fetch_offset=each.offset, partition_max_bytes=bytes_max),
            )
            for each in candidates
        ]
        reads = FetchReads(self._hosted, self._remote, request, None, None, None, self._context.connection_id)

        def leave_others(awaited: set[AskedPartition]) -> None:
            for each, key in zip(candidates, asked, strict=True):
                if key not in awaited and not reads.answers[key].records:
                    each.reading.close()

        try:
            await reads.look(asked, leave_others)
            self.is_tier_late = reads.is_tier_late
            if self.is_tier_late:
                self.again_s = min(self.again_s, asyncio.get_running_loop().time() + TIER_AGAIN_S)
            if reads.has_enough() or is_last:
                for each, key in zip(candidates, asked, strict=True):
                    await self._find_batches(each, reads.answers[key], found)
                self._acquire(candidates, found)
        except BaseException:
            reads.release()
            raise
        sent = {id(each.records) for each in found.partitions.values()}
        for answer in reads.answers.values():
            if isinstance(answer.records, LogSlice) and id(answer.records) not in sent:
                answer.records.release()

    async def _find_batches(self, each: _Candidate, answer: FetchPartitionResponse, found: FoundAll) -> None:
        if answer.error_code in _READ_ELSEWHERE:
            return
        if answer.error_code is not ErrorCode.none:
            message = f"{each.live.key}: offset {each.offset} cannot be read"
            self._fail(each.shared, KafkaError(answer.error_code, message), found)
            return
        if answer.records:
            try:
                each.batches = await read_batches(answer.records, answer.aborted_transactions or ())
            except OUTSIDE as error:
                self._fail(each.shared, KafkaError(ErrorCode.kafka_storage_error, str(error)), found)
                return
            each.records = answer.records
        self._session.note_reported(each.shared, ErrorCode.none, 0)

    def _acquire(self, candidates: Iterable[_Candidate], found: FoundAll) -> None:
        """Acquire in one step: what is throttled is given back before another request can see it."""
        left = self._wants.limits.records_max
        acquired: list[tuple[_Candidate, Found]] = []
        for each in candidates:
            if left <= 0 or not each.batches:
                continue
            limits = self._wants.limits._replace(records_max=left)
            batches = [item.batch for item in each.batches]
            records = each.live.acquire(self._wants.member, each.offset, batches, limits)
            if records:
                left -= sum(item.last - item.first + 1 for item in records)
                acquired.append((each, Found(None, kept(each.records, each.batches, records), records)))
        size = sum(part_size(item.records) for _, item in acquired)
        if self._quota is not None and acquired:
            found.throttle_ms = self._quota.throttle_fetch(self._context, size)
        if found.throttle_ms:
            for each, item in acquired:
                each.live.give_back(item.acquired)
            return
        for each, item in acquired:
            each.live.note_given(item.acquired)
            self._shares.note_held(self._session.key, each.live)
            found.partitions[each.shared] = item
        self._hosted.traffic.consumed_bytes += size
