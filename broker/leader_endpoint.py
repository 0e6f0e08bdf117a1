"""A broker as the leader that this one follows: `fetcher.ports.LeaderEndpoint` over the wire.

Fetches have a connection of their own, because answers come in the order of their requests and questions must not wait
behind a long fetch. They are incremental (KIP-227):

    what happens                              the session afterwards
    ----------------------------------------  -------------------------------------------------------------
    answered, full request                    the one that the leader opened, or none
    answered, incremental request             goes on
    the leader does not know it any more      none; the same partitions are asked for in full at once
    cancelled, failed, not answered           none, and the connection is closed: a long fetch that nobody
                                              waits for would hold up the next one
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final
from uuid import UUID

from ..fetcher.ports import FetchedPartition, FetchLimits, PartitionToFetch
from ..log.epochs import EpochEnd
from ..protocol.api import ApiKey
from ..protocol.client import Address, KafkaClient
from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.fetch_wire import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from ..protocol.topics import TopicIdPartition
from ..remote.lineage import OffsetAndEpoch
from .fetch_sessions import INITIAL_EPOCH, INT32_MAX, INVALID_SESSION_ID

NOTHING: Final = memoryview(b"")
_SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    }
)


class FollowerSession:
    """The follower's half of a fetch session. Pure."""

    def __init__(self) -> None:
        self._id = INVALID_SESSION_ID
        self._epoch = INITIAL_EPOCH
        self._told: dict[TopicIdPartition, FetchPartition] = {}

    def request(self, partitions: Sequence[PartitionToFetch], limits: FetchLimits, replica_id: int) -> FetchRequest:
        """All partitions where there is no session, else what changed since the last request."""
        wanted = {each.partition: _wire(each) for each in partitions}
        changed = {key: value for key, value in wanted.items() if self._told.get(key) != value}
        gone = sorted(key for key in self._told if key not in wanted)
        is_full = self._epoch == INITIAL_EPOCH
        self._told = wanted
        return FetchRequest(
            max_wait_ms=limits.wait_max_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.response_max_bytes,
            replica_id=replica_id,
            session_id=self._id,
            session_epoch=self._epoch,
            topics=tuple(_topics(wanted if is_full else changed)),
            forgotten_topics=() if is_full else tuple(_forgotten(gone)),
        )

    def answered(self, session_id: int) -> None:
        """The leader answered the last request, under this session."""
        if session_id == INVALID_SESSION_ID:
            self.reset()
        elif self._epoch == INITIAL_EPOCH:
            self._id, self._epoch = session_id, 1
        else:
            self._epoch = 1 if self._epoch == INT32_MAX else self._epoch + 1

    def reset(self) -> None:
        """The next request is in full; it ends what the leader may have kept."""
        self._epoch = INITIAL_EPOCH
        self._told = {}


class BrokerEndpoint:
    """The broker `broker_id`; `address` tells where it listens. `fetches` is its own to close, `questions` shared."""

    def __init__(
        self,
        broker_id: int,
        address: Callable[[], Address],
        *,
        replica_id: int,
        fetches: KafkaClient,
        questions: KafkaClient,
        timeout_s: float,
    ) -> None:
        self._broker_id = broker_id
        self._address = address
        self._replica_id = replica_id
        self._fetches = fetches
        self._questions = questions
        self._timeout_s = timeout_s
        self._session = FollowerSession()

    @property
    def broker_id(self) -> int:
        return self._broker_id

    async def close(self) -> None:
        await self._fetches.close()

    async def fetch(
        self, partitions: Sequence[PartitionToFetch], limits: FetchLimits
    ) -> Mapping[TopicIdPartition, FetchedPartition]:
        response = await self._fetch(partitions, limits)
        if response.error_code in _SESSION_ERRORS:
            self._session.reset()
            response = await self._fetch(partitions, limits)
        if response.error_code is not ErrorCode.none:
            self._session.reset()
            raise KafkaError(response.error_code, f"broker {self._broker_id} refused a fetch")
        self._session.answered(response.session_id)
        return dict(_fetched(partitions, response))

    async def _fetch(self, partitions: Sequence[PartitionToFetch], limits: FetchLimits) -> FetchResponse:
        address = self._address()
        request = self._session.request(partitions, limits, self._replica_id)
        timeout_s = limits.wait_max_ms / 1000 + self._timeout_s
        connection = await self._fetches.connection(address)
        try:
            return await connection.fetch(request, timeout_s=timeout_s)
        except BaseException:
            self._session.reset()
            connection.close()
            raise

    async def list_offset(self, partition: TopicIdPartition, leader_epoch: int, timestamp: int) -> OffsetAndEpoch:
        wanted = {
            "partition_index": partition.partition,
            "current_leader_epoch": leader_epoch,
            "timestamp": timestamp,
        }
        answer = await self._ask(
            ApiKey.LIST_OFFSETS,
            {
                "replica_id": self._replica_id,
                "isolation_level": 0,
                "timeout_ms": int(self._timeout_s * 1000),
                "topics": [{"name": partition.topic, "partitions": [wanted]}],
            },
            partition,
        )
        return OffsetAndEpoch(answer.offset, answer.leader_epoch)

    async def end_offset_for_leader_epoch(self, partition: TopicIdPartition, leader_epoch: int, epoch: int) -> EpochEnd:
        wanted = {
            "partition": partition.partition,
            "current_leader_epoch": leader_epoch,
            "leader_epoch": epoch,
        }
        answer = await self._ask(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            {"replica_id": self._replica_id, "topics": [{"topic": partition.topic, "partitions": [wanted]}]},
            partition,
        )
        return EpochEnd(answer.leader_epoch, answer.end_offset)

    async def _ask(self, api: ApiKey, body: Mapping[str, Any], partition: TopicIdPartition) -> Any:
        """The leader's answer for the one partition that was asked about; KafkaError with its code."""
        response = await self._questions.request(self._address(), api, body, timeout_s=self._timeout_s)
        (topic,) = response.topics
        (answer,) = topic.partitions
        if answer.error_code is not ErrorCode.none:
            raise KafkaError(
                answer.error_code, f"{api.name} of {partition.topic_partition} at broker {self._broker_id}"
            )
        return answer


def _wire(wanted: PartitionToFetch) -> FetchPartition:
    return FetchPartition(
        wanted.partition.partition,
        current_leader_epoch=wanted.current_leader_epoch,
        fetch_offset=wanted.fetch_offset,
        last_fetched_epoch=wanted.last_fetched_epoch,
        log_start_offset=wanted.log_start_offset,
        partition_max_bytes=wanted.max_bytes,
    )


def _topics(wanted: Mapping[TopicIdPartition, FetchPartition]) -> Iterator[FetchTopic]:
    """In the order that was asked for, which says who comes first; neighbours of one topic together."""
    for (topic, topic_id), group in groupby(wanted, key=lambda key: (key.topic, key.topic_id)):
        yield FetchTopic(tuple(wanted[key] for key in group), topic, topic_id)


def _forgotten(keys: Sequence[TopicIdPartition]) -> Iterator[ForgottenTopic]:
    for (topic, topic_id), group in groupby(keys, key=lambda key: (key.topic, key.topic_id)):
        yield ForgottenTopic(tuple(key.partition for key in group), topic, topic_id)


def _fetched(
    partitions: Sequence[PartitionToFetch], response: FetchResponse
) -> Iterator[tuple[TopicIdPartition, FetchedPartition]]:
    """The answers for partitions that were asked for; a leader names topics by id or, up to v12, by name."""
    keys: dict[tuple[str | UUID, int], TopicIdPartition] = {}
    for each in partitions:
        keys[each.partition.topic_id, each.partition.partition] = each.partition
        keys[each.partition.topic, each.partition.partition] = each.partition
    for topic in response.topics:
        for answer in topic.partitions:
            key = keys.get((topic.topic_id or topic.topic, answer.partition))
            if key is not None:
                yield key, _answer(answer)


def _answer(answer: FetchPartitionResponse) -> FetchedPartition:
    diverging = answer.diverging_epoch
    records = answer.records
    assert records is None or isinstance(records, bytes | bytearray | memoryview), records
    return FetchedPartition(
        error=answer.error_code,
        high_watermark=answer.high_watermark,
        log_start_offset=answer.log_start_offset,
        diverging_epoch=None if diverging is None else EpochEnd(diverging.epoch, diverging.end_offset),
        records=memoryview(records) if records else NOTHING,
    )
