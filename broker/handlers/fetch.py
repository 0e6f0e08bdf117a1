"""Fetch, for followers and consumers: sessions, limits, and waiting until there is enough to say.

Of a session's partitions those are looked at that do not rest (`fetch_reads`). A partition that is woken while its
request sleeps is slept on from then on, as if it had never rested.

A request is answered at once if it finds `min.bytes` of records, or has an error, a diverging epoch or records from the
tier to report. Otherwise it sleeps until one of its partitions has news or `max.wait.ms` is over, and looks again.

| who fetches | the news |
|---|---|
| followers | the log grew, or the high watermark rose above the one that they stated |
| consumers | the high watermark rose |
| consumers of committed transactions alone | the last stable offset moved |

Once registered with its partitions a request looks again before it sleeps if one may have moved meanwhile, so that no
news is missed. Looking again, it evaluates the partitions in which something has moved. One that may not be read is
told at once if there is nothing else to wait for. A follower held back by the replication throttle is looked at again
once the quota allows it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Protocol, Self

from ...fetcher.core import FetchIsolation
from ...protocol import ErrorCode, KafkaError
from ...protocol.fetch import (
    HIGH_WATERMARK_UNKNOWN,
    RACK_SINCE,
    AskedPartition,
    FetchContext,
    FetchRequest,
    FetchResponse,
    FetchSessionCache,
)
from ...protocol.net import RequestContext, exhausted, monotonic_ms
from ..core.read_replicas import ReplicaSelector, select_leader
from ..replicas.delayed import Sleepers, Wakeup
from ..replicas.hosted_partitions import HostedPartitions
from ..replicas.partition import Partition
from ..replicas.replication_throttles import Throttle
from .fetch_reads import FetchReads, isolation_of
from .tier_reads import RemoteReads


class FetchQuota(Protocol):
    """What consumers may be sent; `quotas.clients`."""

    def fetch_bytes_max(self, context: RequestContext) -> int | None:
        """Return how many bytes may be sent at once; None: any number."""

    def throttle_fetch(self, context: RequestContext, size: int) -> int:
        """Record what is about to be sent; or return for how many milliseconds the consumer has to wait for it."""


class FetchHandler:
    """`max_bytes` is the broker's own limit of a response (fetch.max.bytes), `select` its `replica.selector.class`."""

    def __init__(
        self,
        hosted: HostedPartitions,
        sessions: FetchSessionCache,
        remote: RemoteReads | None,
        *,
        max_bytes: int,
        throttle: Throttle | None = None,
        select: ReplicaSelector = select_leader,
        quota: FetchQuota | None = None,
    ) -> None:
        self._quota = quota
        self._select = select
        self._hosted = hosted
        self._throttle = throttle
        self._sessions = sessions
        self._remote = remote
        self._max_bytes = max_bytes

    async def fetch(self, context: RequestContext, request: FetchRequest) -> FetchResponse:
        now_s = asyncio.get_running_loop().time()
        now_ms = int(now_s * 1000)
        session = await exhausted(
            self._sessions.begin_steps(
                request,
                api_version=context.api_version,
                now_ms=now_ms,
                foundation=self._hosted.image,
                rights=None if context.rights is None else context.rights.version,
            )
        )
        if session.error_code is not ErrorCode.none:
            return self._sessions.respond(session, {}, now_ms=now_ms)
        if request.replica_id < 0:
            request = self._within_limits(context, request)
        knows_followers = request.replica_id < 0 and context.api_version >= RACK_SINCE
        select = self._select if knows_followers else None
        reads = FetchReads(
            self._hosted, self._remote, request, self._throttle, select, context.rights, context.connection_id
        )
        try:
            await self._look_until_enough(request, session, reads, now_s + request.max_wait_ms / 1000)
            if request.replica_id < 0 and self._quota is not None:
                wait_ms = self._quota.throttle_fetch(context, reads.size)
                if wait_ms:
                    reads.release()
                    return self._sessions.throttled(session, wait_ms)
            return await self._respond(context.listener, request, session, reads)
        except BaseException:
            reads.release()
            raise

    def _within_limits(self, context: RequestContext, request: FetchRequest) -> FetchRequest:
        """Return a consumer's request with the bytes that it may be sent, and does not wait for more."""
        bound = None if self._quota is None else self._quota.fetch_bytes_max(context)
        max_bytes = min(request.max_bytes, self._max_bytes, request.max_bytes if bound is None else bound)
        if max_bytes == request.max_bytes:
            return request
        return replace(request, max_bytes=max_bytes, min_bytes=min(request.min_bytes, max_bytes))

    async def _look_until_enough(
        self, request: FetchRequest, context: FetchContext, reads: FetchReads, deadline_s: float
    ) -> None:
        now_s = asyncio.get_running_loop().time
        await reads.look(context.partitions)
        while not (reads.has_enough() or len(reads.denied) >= context.size) and now_s() < deadline_s:
            reads.release()
            with Sleep(self._hosted, request, context, reads) as sleep:
                if sleep.needs_another_look:
                    await reads.look(context.partitions)
                    if reads.has_enough():
                        return
                    reads.release()
                await sleep.wakeup.wait(min(deadline_s, reads.held_back_until_s))
            await reads.look(context.partitions)

    async def _respond(
        self, listener: str, request: FetchRequest, session: FetchContext, reads: FetchReads
    ) -> FetchResponse:
        reads.count()
        if request.replica_id < 0:
            self._hosted.traffic.consumed_bytes += reads.size
        else:
            self._hosted.traffic.replicated_bytes += reads.size
        response = await exhausted(
            self._sessions.respond_steps(
                session,
                reads.answers,
                now_ms=monotonic_ms(),
                node_endpoints=self._hosted.endpoints(reads.hints, listener) if reads.hints else (),
            )
        )
        going_on = self._sessions.continued_session(session)
        if going_on is not None:
            for asked, leadership in reads.may_rest():
                leadership.resting.add(going_on, asked, request.replica_id)
        return response


class Sleep:
    """One request that waits for news of any partition that does not rest, or no longer does."""

    __slots__ = ("_context", "_hosted", "_isolation", "_on", "_reads", "needs_another_look", "wakeup")

    def __init__(
        self, hosted: HostedPartitions, request: FetchRequest, context: FetchContext, reads: FetchReads
    ) -> None:
        self.wakeup = Wakeup()
        self._hosted = hosted
        self._isolation = isolation_of(request)
        self._context = context
        self._reads = reads
        self._on: list[Sleepers] = []
        self.needs_another_look = False
        """Before the request sleeps: not all partitions stand where they stood at the last look."""

    def __enter__(self) -> Self:
        if self._context.session is not None:
            self._context.session.on_woken.append(self._woken)
        for asked in self._context.partitions:
            if asked in self._reads.denied:
                continue
            standing = self._reads.standing(asked)
            if standing is None:
                self.needs_another_look = True
                self._sleep_on(asked, self._hosted_partition(asked))
            else:
                self._sleep_on(asked, standing.partition)
        return self

    def __exit__(self, *_: object) -> None:
        if self._context.session is not None:
            self._context.session.on_woken.remove(self._woken)
        for news in self._on:
            news.discard(self.wakeup)

    def _woken(self, asked: AskedPartition) -> None:
        partition = self._hosted_partition(asked)
        if partition is None:
            self.wakeup.wake()  # that it is no longer hosted is news as well
        self._sleep_on(asked, partition)

    def _hosted_partition(self, asked: AskedPartition) -> Partition | None:
        try:
            return self._hosted.find(*asked.key)
        except KafkaError:
            return None

    def _sleep_on(self, asked: AskedPartition, partition: Partition | None) -> None:
        if partition is None:
            return
        if self._isolation is FetchIsolation.LOG_END:
            self._sleep_until(partition.log_end_news)
        if self._isolation is FetchIsolation.TXN_COMMITTED:
            self._sleep_until(partition.stable_news)
        elif self._isolation is not FetchIsolation.LOG_END or asked.wanted.high_watermark != HIGH_WATERMARK_UNKNOWN:
            self._sleep_until(partition.high_watermark_news)

    def _sleep_until(self, news: Sleepers) -> None:
        self._on.append(news)
        news.add(self.wakeup)
