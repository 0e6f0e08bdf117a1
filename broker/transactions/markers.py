"""Writes the markers of transactions to the leaders of their partitions, here and elsewhere, until all have them.

    send -> one marker for each partition -> the queue of its leader -> WriteTxnMarkers -> done
                      ^                                                        |
                      +------------- back-off, whoever leads then <------------+ not now

Up to `LANES_MAX` requests are under way to each broker, and as many of markers that are tried again; what comes
meanwhile shares the next one. A busy coordinator sends few. A request is answered with the slowest of its partitions:
one whose disk hangs, or that lacks replicas, holds up what was sent beside it, and then only what is tried again.

| a partition's answer | what it means |
|---|---|
| NONE | the marker is committed |
| the topic or the partition no longer exists | nothing is left to be ended |
| TRANSACTION_COORDINATOR_FENCED, INVALID_PRODUCER_EPOCH | a newer one has been there: KafkaError |
| any other error, no answer, no leader | tried again, after `RETRY_MIN_S` to `RETRY_MAX_S` |

A marker that is sent twice is harmless: the second one ends nothing. So a broker that does not answer in time is given
up, this one as any other: its disk may hang, and the lane would hang with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from ...light_dataclass import dataclass
from ...limited_log import LimitedLog
from ...protocol import OUTSIDE, ErrorCode, KafkaError, TopicPartition, numbers_by_topic
from ...protocol.messages.producers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ...protocol.net import Address, KafkaClient, Slices
from ..cluster.view import NO_LEADER, ClusterImage, ClusterView
from .core.states import TransactionValue

MARKERS_MAX: Final = 1_000
"""The number of partitions in one request: as many as its receiver begins at once (`handlers.txn_markers`). One that
waited there could be written after this sender has given up, into the next transaction.
"""
LANES_MAX: Final = 4
"""The number of requests under way to one broker."""
MARKER_WEIGHT: Final = 5
"""What a marker costs on the loop until it is in a queue, in elements of `pace`."""
RETRY_MIN_S: Final = 0.02
RETRY_MAX_S: Final = 1.0

_FENCED: Final = frozenset({ErrorCode.transaction_coordinator_fenced, ErrorCode.invalid_producer_epoch})
_log = LimitedLog(logging.getLogger(__name__))

WriteHere = Callable[[WriteTxnMarkersRequest], Awaitable[WriteTxnMarkersResponse]]
AddressOf = Callable[[ClusterImage, int], Address]
_Kind = tuple[int, bool]
"""A broker, and whether its markers are tried again."""


@dataclass(frozen=True, slots=True)
class _Head:
    """What the markers of one transaction have in common."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int


class _Sending:
    """The markers of one transaction that are not written yet: `left`."""

    __slots__ = ("done", "left")

    def __init__(self, left: int) -> None:
        self.left = left
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def written(self) -> None:
        self.left -= 1
        if not self.left:
            self.done.set_result(None)


@dataclass(slots=True, eq=False)
class _Marker:
    head: _Head
    partition: TopicPartition
    sending: _Sending
    attempts: int = 0

    @property
    def is_given_up(self) -> bool:
        """Whether it is of no use any longer: its sender gave up, or one beside it is fenced."""
        return self.sending.done.done()

    @property
    def key(self) -> tuple[int, str, int]:
        return self.head.producer_id, self.partition.topic, self.partition.partition


class MarkerSender:
    """`write_here` writes markers to what this broker leads; `address_of` and a client of its own for each request
    under way reach the others: a connection is answered in the order of its requests.
    """

    def __init__(
        self,
        view: ClusterView,
        node_id: int,
        make_client: Callable[[], KafkaClient],
        address_of: AddressOf,
        write_here: WriteHere,
        rng: Random,
        *,
        timeout_s: float,
    ) -> None:
        self._view = view
        self._node_id = node_id
        self._make_client = make_client
        self._idle_clients: list[KafkaClient] = []
        self._address_of = address_of
        self._write_here = write_here
        self._rng = rng
        self._timeout_s = timeout_s
        self._queues: dict[_Kind, deque[_Marker]] = defaultdict(deque)
        self._lanes: dict[_Kind, set[asyncio.Task[None]]] = defaultdict(set)
        """The tasks that have a request under way."""

    async def send(self, value: TransactionValue, coordinator_epoch: int) -> None:
        """Return once every partition has its marker, committed. Raise KafkaError if one is
        fenced. Cancel it to give up."""
        head = _Head(
            value.producer_id,
            value.producer_epoch,
            value.is_commit,
            coordinator_epoch,
            value.transaction_version,
        )
        assert value.partitions, "no marker would ever be written"
        sending = _Sending(len(value.partitions))
        markers = (
            _Marker(head, TopicPartition(topic, number), sending)
            for topic, numbers in numbers_by_topic(value.partitions).items()
            for number in numbers
        )
        try:
            async for some in Slices(markers, weight=MARKER_WEIGHT, free=MARKERS_MAX):
                for marker in some:
                    self._route(marker)
            await sending.done
        finally:
            sending.done.cancel()

    async def close(self) -> None:
        """Stop sending; the markers that are left are sent by the next coordinator."""
        lanes = [lane for lanes in self._lanes.values() for lane in lanes]
        for lane in lanes:
            lane.cancel()
        await asyncio.gather(*lanes, return_exceptions=True)
        for client in self._idle_clients:
            await client.close()

    def _route(self, marker: _Marker) -> None:
        if marker.is_given_up:
            return
        image = self._view.image
        registration = image.partition(marker.partition)
        if registration is None:
            marker.sending.written()
            return
        leader = registration.leader
        if leader == NO_LEADER or leader not in image.brokers:
            self._try_again(marker)
            return
        kind = leader, marker.attempts > 0
        queue = self._queues[kind]
        queue.append(marker)
        if len(queue) > 1:
            return  # the lane that was opened for the first takes them all
        lanes = self._lanes[kind] = {lane for lane in self._lanes[kind] if not lane.done()}
        if len(lanes) < LANES_MAX:
            lanes.add(asyncio.create_task(self._serve(kind), name=f"markers-{leader}"))

    def _try_again(self, marker: _Marker) -> None:
        delay_s = min(RETRY_MIN_S * 2 ** min(marker.attempts, 10), RETRY_MAX_S)
        marker.attempts += 1
        asyncio.get_running_loop().call_later(delay_s * self._rng.uniform(0.5, 1.0), self._route, marker)

    async def _serve(self, kind: _Kind) -> None:
        queue, broker_id = self._queues[kind], kind[0]
        client = self._idle_clients.pop() if self._idle_clients else self._make_client()
        try:
            while queue:
                some: list[_Marker] = []
                while queue and len(some) < MARKERS_MAX:
                    marker = queue.popleft()
                    if not marker.is_given_up:
                        some.append(marker)
                if some:
                    self._settle(some, await self._write(broker_id, some, client))
        finally:
            self._idle_clients.append(client)

    async def _write(
        self, broker_id: int, markers: list[_Marker], client: KafkaClient
    ) -> dict[tuple[int, str, int], ErrorCode]:
        request = WriteTxnMarkersRequest(markers=_grouped(markers))
        try:
            if broker_id == self._node_id:
                async with asyncio.timeout(self._timeout_s):
                    response = await self._write_here(request)
            else:
                address = self._address_of(self._view.image, broker_id)
                response = await client.send(address, request, timeout_s=self._timeout_s)
        except OUTSIDE as error:
            _log.info(str(broker_id), "broker %d: markers could not be written, trying again: %s", broker_id, error)
            return {}
        except Exception as error:  # noqa: BLE001 - the supervisor of the lane: a marker that is lost ends no transaction
            message = "internal error in markers for broker %d, trying again"
            _log.error(str(broker_id), message, broker_id, exc_info=error)
            return {}
        return {
            (result.producer_id, topic.name, partition.partition_index): partition.error_code
            for result in response.markers
            for topic in result.topics
            for partition in topic.partitions
        }

    def _settle(self, markers: list[_Marker], answers: dict[tuple[int, str, int], ErrorCode]) -> None:
        for marker in markers:
            error = answers.get(marker.key, ErrorCode.unknown_server_error)
            if marker.is_given_up:
                continue
            if error is ErrorCode.none:
                marker.sending.written()
            elif error in _FENCED:
                marker.sending.done.set_exception(KafkaError(error, f"{marker.partition} has seen a newer one"))
            else:
                self._try_again(marker)


def _grouped(markers: list[_Marker]) -> tuple[WritableTxnMarker, ...]:
    by_head: dict[_Head, list[TopicPartition]] = {}
    for marker in markers:
        by_head.setdefault(marker.head, []).append(marker.partition)
    return tuple(
        WritableTxnMarker(
            producer_id=head.producer_id,
            producer_epoch=head.producer_epoch,
            transaction_result=head.is_commit,
            topics=tuple(
                WritableTxnMarkerTopic(name=name, partition_indexes=tuple(numbers))
                for name, numbers in numbers_by_topic(partitions).items()
            ),
            coordinator_epoch=head.coordinator_epoch,
            transaction_version=head.transaction_version,
        )
        for head, partitions in by_head.items()
    )
