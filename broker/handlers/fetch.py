"""Fetch, for followers and consumers: sessions, limits, and waiting until there is enough to say.

A request is answered at once if it finds `min.bytes` of records, or has an error, a diverging epoch or records from the
tier to tell. Otherwise it sleeps until one of its partitions has news (followers: the log grew; consumers: the high
watermark rose) or `max.wait.ms` is over, and looks again. It is registered with its partitions before it looks, so that
no news is missed; it sleeps without a timer of its own otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from uuid import UUID

from ...protocol.dispatch import RequestContext
from ...protocol.errors import KafkaError
from ...protocol.fetch_wire import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
)
from ..delayed import Sleepers, Wakeup
from ..fetch_sessions import FetchContext, FetchKey, FetchSessionCache
from ..hosted_partitions import HostedPartitions
from .fetch_reads import FetchReads, RemoteReads

Partitions = Sequence[tuple[FetchKey, FetchPartition]]


class FetchHandler:
    """`max_bytes` is the broker's own limit of a response (fetch.max.bytes)."""

    def __init__(
        self, hosted: HostedPartitions, sessions: FetchSessionCache, remote: RemoteReads | None, *, max_bytes: int
    ) -> None:
        self._hosted = hosted
        self._sessions = sessions
        self._remote = remote
        self._max_bytes = max_bytes

    async def fetch(self, _: RequestContext, request: FetchRequest) -> FetchResponse:
        now_s = asyncio.get_running_loop().time()
        try:
            context = self._sessions.open(request, int(now_s * 1000))
        except KafkaError as error:
            return FetchResponse(topics=(), error_code=error.code)
        if request.replica_id < 0 and request.max_bytes > self._max_bytes:
            request = replace(request, max_bytes=self._max_bytes)
        reads = await self._collect(request, context.partitions, now_s + request.max_wait_ms / 1000)
        try:
            return self._respond(context, reads)
        except KafkaError as error:
            reads.release()
            return FetchResponse(topics=(), error_code=error.code)

    async def _collect(self, request: FetchRequest, partitions: Partitions, deadline_s: float) -> FetchReads:
        """The reads to answer with; whoever gets them releases them."""
        loop = asyncio.get_running_loop()
        reads = await self._look(request, partitions, note_positions=True)
        while not _is_enough(reads, request) and loop.time() < deadline_s:
            reads.release()
            with self._asleep(request, partitions) as wakeup:
                reads = await self._look(request, partitions, note_positions=False)
                if _is_enough(reads, request):
                    break
                reads.release()
                await wakeup.wait(deadline_s - loop.time())
            reads = await self._look(request, partitions, note_positions=False)
        return reads

    async def _look(self, request: FetchRequest, partitions: Partitions, *, note_positions: bool) -> FetchReads:
        reads = FetchReads(self._hosted, self._remote, request)
        try:
            await reads.run(partitions, note_positions=note_positions)
        except BaseException:
            reads.release()
            raise
        return reads

    @contextmanager
    def _asleep(self, request: FetchRequest, partitions: Partitions) -> Iterator[Wakeup]:
        """Registered for the news of all partitions."""
        wakeup = Wakeup()
        sleepers = [news for key, _ in partitions if (news := self._news(request, key)) is not None]
        for news in sleepers:
            news.add(wakeup)
        try:
            yield wakeup
        finally:
            for news in sleepers:
                news.discard(wakeup)

    def _news(self, request: FetchRequest, key: FetchKey) -> Sleepers | None:
        try:
            partition = self._hosted.find(*key)
        except KafkaError:
            return None
        return partition.log_end_news if request.replica_id >= 0 else partition.high_watermark_news

    def _respond(self, context: FetchContext, reads: FetchReads) -> FetchResponse:
        chosen = [reads.answers[index][:2] for index in context.select(reads.answers)]
        topics = tuple(
            _topic_response(topic, [answer for _, answer in group])
            for topic, group in groupby(chosen, key=lambda entry: entry[0][0])
        )
        hints = {answer.current_leader for _, answer in chosen if answer.current_leader is not None}
        return FetchResponse(
            topics=topics,
            session_id=context.session_id,
            node_endpoints=self._hosted.endpoints(hints) if hints else (),
        )


def _is_enough(reads: FetchReads, request: FetchRequest) -> bool:
    return reads.must_answer or reads.size >= request.min_bytes or not reads.answers


def _topic_response(topic: str | UUID, answers: list[FetchPartitionResponse]) -> FetchTopicResponse:
    if isinstance(topic, str):
        return FetchTopicResponse(tuple(answers), topic=topic)
    return FetchTopicResponse(tuple(answers), topic_id=topic)
