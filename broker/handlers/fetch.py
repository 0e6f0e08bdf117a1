"""Fetch, for followers and consumers: sessions, limits, and waiting until there is enough to say.

Of a session's partitions those are looked at that do not rest (`fetch_reads`). A partition that is roused while its
request sleeps is slept on from then on, as if it had never rested.

A request is answered at once if it finds `min.bytes` of records, or has an error, a diverging epoch or records from the
tier to tell. Otherwise it sleeps until one of its partitions has news (followers: the log grew, or the high watermark
rose above the one that they told; consumers: it rose) or `max.wait.ms` is over, and looks again. It is registered with
its partitions before it looks, so that no news is missed; it sleeps without a timer of its own otherwise. Looking
again, it evaluates the partitions in which something has moved. Whoever is held back by the replication throttle is
looked at again once the quota allows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from ...protocol.dispatch import RequestContext
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.fetch_messages import HIGH_WATERMARK_NOT_TOLD, FetchPartition, FetchRequest, FetchResponse
from ...protocol.fetch_session import FetchContext, FetchSessionCache, PartitionKey
from ...protocol.fetch_wire import RACK_SINCE
from ..delayed import Sleepers, Wakeup
from ..hosted_partitions import HostedPartitions
from ..read_replicas import ReplicaSelector, select_leader
from ..replication_throttles import Throttle
from .fetch_reads import FetchReads, RemoteReads

Partitions = Mapping[PartitionKey, FetchPartition]


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
    ) -> None:
        self._select = select
        self._hosted = hosted
        self._throttle = throttle
        self._sessions = sessions
        self._remote = remote
        self._max_bytes = max_bytes

    async def fetch(self, context: RequestContext, request: FetchRequest) -> FetchResponse:
        now_s = asyncio.get_running_loop().time()
        session = self._sessions.begin(
            request, api_version=context.api_version, now_ms=int(now_s * 1000), foundation=self._hosted.image
        )
        if session.error_code is not ErrorCode.none:
            return self._sessions.respond(session, {}, now_ms=int(now_s * 1000))
        if request.replica_id < 0 and request.max_bytes > self._max_bytes:
            request = replace(request, max_bytes=self._max_bytes)
        knows_followers = request.replica_id < 0 and context.api_version >= RACK_SINCE
        select = self._select if knows_followers else None
        reads = await self._collect(request, session, select, now_s + request.max_wait_ms / 1000)
        return self._respond(request, session, reads)

    async def _collect(
        self, request: FetchRequest, session: FetchContext, select: ReplicaSelector | None, deadline_s: float
    ) -> FetchReads:
        """The reads to answer with; whoever gets them releases them."""
        loop = asyncio.get_running_loop()
        reads = await self._look(request, session.partitions, select)
        while not (session.is_empty or _is_enough(reads, request)) and loop.time() < deadline_s:
            reads.release()
            with self._asleep(request, session) as wakeup:
                if not reads.holds(session.partitions):
                    reads = await self._look(request, session.partitions, select, reads)
                    if _is_enough(reads, request):
                        break
                    reads.release()
                await wakeup.wait(min(deadline_s - loop.time(), reads.held_back_s))
            reads = await self._look(request, session.partitions, select, reads)
        return reads

    async def _look(
        self,
        request: FetchRequest,
        partitions: Partitions,
        select: ReplicaSelector | None,
        before: FetchReads | None = None,
    ) -> FetchReads:
        reads = FetchReads(self._hosted, self._remote, request, self._throttle, select)
        try:
            await reads.run(partitions, before)
        except BaseException:
            reads.release()
            raise
        return reads

    @contextmanager
    def _asleep(self, request: FetchRequest, context: FetchContext) -> Iterator[Wakeup]:
        """Woken by news of any partition that does not rest, or does not any more."""
        wakeup, sleepers, session = Wakeup(), list[Sleepers](), context.session

        def sleep_on(key: PartitionKey, wanted: FetchPartition) -> None:
            for news in self._news(request, key, wanted):
                news.add(wakeup)
                sleepers.append(news)

        def roused(key: PartitionKey, wanted: FetchPartition) -> None:
            if not self._news(request, key, wanted):
                wakeup.wake()  # it is gone: that is the news
            sleep_on(key, wanted)

        for key, wanted in context.partitions.items():
            sleep_on(key, wanted)
        if session is not None:
            session.on_roused.append(roused)
        try:
            yield wakeup
        finally:
            if session is not None:
                session.on_roused.remove(roused)
            for news in sleepers:
                news.discard(wakeup)

    def _news(self, request: FetchRequest, key: PartitionKey, wanted: FetchPartition) -> Sequence[Sleepers]:
        try:
            partition = self._hosted.find(*key)
        except KafkaError:
            return ()
        if request.replica_id < 0:
            return (partition.high_watermark_news,)
        if wanted.high_watermark == HIGH_WATERMARK_NOT_TOLD:
            return (partition.log_end_news,)
        return (partition.log_end_news, partition.high_watermark_news)

    def _respond(self, request: FetchRequest, session: FetchContext, reads: FetchReads) -> FetchResponse:
        reads.count()
        looked_at = session.partitions
        hints = {answer.current_leader for answer in reads.answers.values() if answer.current_leader is not None}
        response = self._sessions.respond(
            session,
            reads.answers,
            now_ms=int(asyncio.get_running_loop().time() * 1000),
            node_endpoints=self._hosted.endpoints(hints) if hints else (),
        )
        going_on = self._sessions.is_told(session)
        if going_on is not None:
            for key, leadership in reads.may_rest(looked_at):
                leadership.resting.add(going_on, key, request.replica_id)
        return response


def _is_enough(reads: FetchReads, request: FetchRequest) -> bool:
    return reads.must_answer or reads.size >= request.min_bytes
