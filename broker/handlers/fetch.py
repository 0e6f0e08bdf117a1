"""Fetch, for followers and consumers: sessions, limits, and waiting until there is enough to say.

A request is answered at once if it finds `min.bytes` of records, or has an error, a diverging epoch or records from the
tier to tell. Otherwise it sleeps until one of its partitions has news (followers: the log grew, or the high watermark
rose above the one that they told; consumers: it rose) or `max.wait.ms` is over, and looks again. It is registered with
its partitions before it looks, so that no news is missed; it sleeps without a timer of its own otherwise. Looking
again, it evaluates the partitions in which something has moved. Whoever is held back by the replication throttle is
looked at again once the quota allows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from ...protocol.dispatch import RequestContext
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.fetch_session import FetchContext, FetchSessionCache, PartitionKey
from ...protocol.fetch_wire import (
    HIGH_WATERMARK_NOT_TOLD,
    RACK_SINCE,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)
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
        session = self._sessions.begin(request, api_version=context.api_version, now_ms=int(now_s * 1000))
        if session.error_code is not ErrorCode.none:
            return self._sessions.respond(session, {}, now_ms=int(now_s * 1000))
        if request.replica_id < 0 and request.max_bytes > self._max_bytes:
            request = request._replace(max_bytes=self._max_bytes)
        knows_followers = request.replica_id < 0 and context.api_version >= RACK_SINCE
        select = self._select if knows_followers else None
        reads = await self._collect(request, session.partitions, select, now_s + request.max_wait_ms / 1000)
        return self._respond(session, reads)

    async def _collect(
        self, request: FetchRequest, partitions: Partitions, select: ReplicaSelector | None, deadline_s: float
    ) -> FetchReads:
        """The reads to answer with; whoever gets them releases them."""
        loop = asyncio.get_running_loop()
        reads = await self._look(request, partitions, select)
        while not _is_enough(reads, request) and loop.time() < deadline_s:
            reads.release()
            wakeup, sleepers = Wakeup(), self._sleepers(request, partitions)
            for news in sleepers:
                news.add(wakeup)
            try:
                if not reads.holds():
                    reads = await self._look(request, partitions, select, reads)
                    if _is_enough(reads, request):
                        break
                    reads.release()
                await wakeup.wait(min(deadline_s - loop.time(), reads.held_back_s))
            finally:
                for news in sleepers:
                    news.discard(wakeup)
            reads = await self._look(request, partitions, select, reads)
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

    def _sleepers(self, request: FetchRequest, partitions: Partitions) -> list[Sleepers]:
        """Where a request sleeps that waits for news of all these."""
        return [news for key, wanted in partitions.items() for news in self._news(request, key, wanted)]

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

    def _respond(self, session: FetchContext, reads: FetchReads) -> FetchResponse:
        reads.count()
        hints = {answer.current_leader for answer in reads.answers.values() if answer.current_leader is not None}
        return self._sessions.respond(
            session,
            reads.answers,
            now_ms=int(asyncio.get_running_loop().time() * 1000),
            node_endpoints=self._hosted.endpoints(hints) if hints else (),
        )


def _is_enough(reads: FetchReads, request: FetchRequest) -> bool:
    return reads.must_answer or reads.size >= request.min_bytes or not reads.answers
