"""A client of the cluster, through the wire: the production connections, and on top what a Kafka client adds to them.

Finds leaders by Metadata from any broker, asks them, and looks for the leader again after every failure. One attempt is
one call here; what to repeat is the workload's matter. `AttemptFailedError` says that the broker may or may not have
acted on the request; a broker's own error codes are KafkaErrors.

A client in a rack reads from the replica that the leader names (KIP-392), for `PREFERRED_S` or until that one refuses;
it believes OFFSET_OUT_OF_RANGE only of the leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Final, Protocol, TypeVar
from uuid import UUID

from ...controller import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE
from ...light_dataclass import dataclass
from ...protocol import ApiKey, ErrorCode, KafkaError, RetriableError, TopicPartition, metadata_of, offsets_of
from ...protocol.fetch import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    AbortedTransaction,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from ...protocol.messages import Request, ResponseT
from ...protocol.messages.producers import (
    InitProducerIdRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ...protocol.net import Address, KafkaClient, RequestTimedOutError
from ...protocol.records import has_transactional_bit
from ...protocol.wire import ProducePartition, ProduceRequest, ProduceTopic

AnswerT_co = TypeVar("AnswerT_co", covariant=True)

ATTEMPT_TIMEOUT_S: Final = 4.0
TRANSACTIONAL_ID: Final = "simulated"
BROKER_TIMEOUT_MS: Final = 3_000
FETCH_BYTES_MAX: Final = 256 * 1024
PREFERRED_S: Final = 3.0
NO_OFFSET: Final = -1
EARLIEST: Final = -2
LATEST: Final = -1


class AttemptFailedError(RetriableError):
    """No answer: what the broker did is not known."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What one Fetch of one partition gave: whole batches, from the one that holds the asked offset on."""

    data: bytes
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedTransaction, ...]


@dataclass(frozen=True, slots=True)
class _Leader:
    """And all brokers' addresses."""

    address: Address
    topic_id: UUID
    brokers: Mapping[int, Address]


@dataclass(frozen=True, slots=True)
class _Preferred:
    address: Address
    until_s: float


def client_ids(name: str) -> tuple[str, str]:
    """The client ids of a client: of all requests, and of fetches."""
    return name, f"{name}-fetch"


class SimClient:
    """The client of one process. Close it. `on_throttled` is given a quota's key and each throttle time in ms that is
    not 0; `on_unanswered` the host, the API and the time in s of each request that had no answer in time on its
    connection. `produce_max` is the newest version of Produce that it speaks: before 12 nothing is added to
    transactions by it. A fetch brings `fetch_bytes` at most, or one batch.
    """

    def __init__(
        self,
        client_id: str,
        bootstrap: Sequence[Address],
        rng: Random,
        rack: str = "",
        on_throttled: Callable[[str, int], None] = lambda *_: None,
        *,
        on_unanswered: Callable[[str, str, float], None] = lambda *_: None,
        transactional_id: str = TRANSACTIONAL_ID,
        produce_max: int | None = None,
        fetch_bytes: int = FETCH_BYTES_MAX,
    ) -> None:
        own_id, fetch_id = client_ids(client_id)
        self._client = KafkaClient(client_id=own_id, random=rng)
        self._fetches = KafkaClient(client_id=fetch_id, random=rng)
        self._on_throttled = on_throttled
        self._on_unanswered = on_unanswered
        self._transactional_id = transactional_id
        self._produce_max = produce_max
        self._fetch_bytes = fetch_bytes
        self._bootstrap = tuple(bootstrap)
        self._rng = rng
        self._rack = rack
        self._leaders: dict[TopicPartition, _Leader] = {}
        self._preferred: dict[TopicPartition, _Preferred] = {}
        self.leader_host = ""
        """The host of the broker that was asked last as the leader of a partition."""
        self.follower_reads = 0
        """Fetches that a follower answered with records."""

    async def close(self) -> None:
        await self._client.close()
        await self._fetches.close()

    async def init_producer_id(self) -> tuple[int, int]:
        """Id and epoch, from any broker."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        answer = await self._send(self._rng.choice(self._bootstrap), request)
        _check(answer.error_code, "InitProducerId")
        return answer.producer_id, answer.producer_epoch

    async def locate(self, partition: TopicPartition) -> None:
        """Learn who leads, so that batches which are sent at once go in their order. AttemptFailedError, KafkaError."""
        await self._leader(partition)

    async def produce(self, partition: TopicPartition, batch: bytes, acks: int) -> int:
        """The base offset."""
        return (await self.produce_where(partition, batch, acks))[1]

    async def produce_where(self, partition: TopicPartition, batch: bytes, acks: int) -> tuple[UUID, int]:
        """Which incarnation of the topic took the batch, and its base offset there, -1 with acks=0: no answer says."""
        leader = await self._leader(partition)
        topic = ProduceTopic(
            (ProducePartition(partition.partition, bytearray(batch)),), partition.topic, leader.topic_id
        )
        transactional_id = self._transactional_id if has_transactional_bit(batch) else None
        request = ProduceRequest(
            acks=acks, timeout_ms=BROKER_TIMEOUT_MS, topics=(topic,), transactional_id=transactional_id
        )
        produced = await self._ask_leader(partition, self._client, request, self._produce_max)
        if produced is None:
            return leader.topic_id, NO_OFFSET
        if produced.throttle_time_ms:
            self._on_throttled(PRODUCER_BYTE_RATE, produced.throttle_time_ms)
        answer = _only(produced.topics)
        self._check_leader(partition, answer.error_code, f"produce to {partition}")
        return leader.topic_id, answer.base_offset

    async def fetch(
        self, partition: TopicPartition, offset: int, *, max_wait_ms: int, is_read_committed: bool = False
    ) -> Fetched:
        leader = await self._leader(partition)
        wanted = FetchPartition(partition.partition, fetch_offset=offset, partition_max_bytes=self._fetch_bytes)
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=self._fetch_bytes,
            topics=(FetchTopic((wanted,), partition.topic, leader.topic_id),),
            isolation_level=READ_COMMITTED if is_read_committed else READ_UNCOMMITTED,
            rack_id=self._rack,
        )
        answer = await self._fetch(partition, request)
        if answer.preferred_read_replica in leader.brokers:
            until_s = asyncio.get_running_loop().time() + PREFERRED_S
            self._preferred[partition] = _Preferred(leader.brokers[answer.preferred_read_replica], until_s)
        elif answer.preferred_read_replica >= 0:  # it came back since: ask for the brokers, as Kafka's clients do
            self._leaders.pop(partition, None)
            raise AttemptFailedError(f"{partition}: broker {answer.preferred_read_replica} is not known yet")
        assert isinstance(answer.records, bytes | bytearray | memoryview | None), answer.records
        return Fetched(
            bytes(answer.records or b""),
            answer.high_watermark,
            answer.last_stable_offset,
            answer.log_start_offset,
            answer.aborted_transactions or (),
        )

    async def _fetch(self, partition: TopicPartition, request: FetchRequest) -> FetchPartitionResponse:
        what = f"fetch of {partition} at {request.topics[0].partitions[0].fetch_offset}"
        preferred = self._preferred.get(partition)
        if preferred is not None and asyncio.get_running_loop().time() < preferred.until_s:
            try:
                return await self._fetch_from_follower(preferred.address, request, what)
            except (AttemptFailedError, KafkaError) as error:
                del self._preferred[partition]
                raise AttemptFailedError(f"{what} from {preferred.address}: {error}") from error
        response = await self._ask_leader(partition, self._fetches, request)
        answer = self._answer(response, what)
        self._check_leader(partition, answer.error_code, what)
        return answer

    async def _fetch_from_follower(self, address: Address, request: FetchRequest, what: str) -> FetchPartitionResponse:
        response = await self._ask(self._fetches, address, request)
        answer = self._answer(response, what)
        _check(answer.error_code, what)
        self.follower_reads += bool(answer.records)
        return answer

    def _answer(self, response: FetchResponse, what: str) -> FetchPartitionResponse:
        """The answer for the one partition; a client above its quota gets none, and asks again (KIP-219)."""
        if response.throttle_time_ms:
            self._on_throttled(CONSUMER_BYTE_RATE, response.throttle_time_ms)
        _check(response.error_code, what)
        if response.throttle_time_ms and not response.topics:
            raise AttemptFailedError(f"{what}: throttled for {response.throttle_time_ms} ms")
        return _only(response.topics)

    async def list_offset(self, partition: TopicPartition, timestamp: int) -> int:
        request = offsets_of([(partition.topic, partition.partition)], timestamp, timeout_ms=BROKER_TIMEOUT_MS)
        response = await self._send_leader(partition, request)
        answer = response.topics[0].partitions[0]
        self._check_leader(partition, answer.error_code, f"offset {timestamp} of {partition}")
        return answer.offset

    async def write_marker(self, partition: TopicPartition, producer_id: int, epoch: int, *, commit: bool) -> None:
        """End a transaction, as its coordinator would."""
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_result=commit,
            topics=(WritableTxnMarkerTopic(name=partition.topic, partition_indexes=(partition.partition,)),),
            coordinator_epoch=0,
        )
        response = await self._send_leader(partition, WriteTxnMarkersRequest(markers=(marker,)))
        answer = response.markers[0].topics[0].partitions[0]
        self._check_leader(partition, answer.error_code, f"marker in {partition}")

    async def _leader(self, partition: TopicPartition) -> _Leader:
        leader = self._leaders.get(partition)
        if leader is None:
            leader = self._leaders[partition] = await self._find_leader(partition)
        return leader

    async def _find_leader(self, partition: TopicPartition) -> _Leader:
        address = self._rng.choice(self._bootstrap)
        answer = await self._ask(self._client, address, metadata_of([partition.topic]))
        topic = answer.topics[0]
        _check(topic.error_code, f"metadata of {partition.topic}")
        addresses = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
        found = next((each for each in topic.partitions if each.partition_index == partition.partition), None)
        if found is None or found.leader_id not in addresses:
            raise KafkaError(ErrorCode.leader_not_available, f"{partition} has no leader that {address} knows of")
        assert topic.topic_id is not None, f"{address} names no id of {partition.topic}"
        return _Leader(addresses[found.leader_id], topic.topic_id, addresses)

    async def _ask_leader(
        self,
        partition: TopicPartition,
        client: KafkaClient,
        request: Request[ResponseT],
        max_version: int | None = None,
    ) -> ResponseT:
        leader = await self._leader(partition)
        self.leader_host = leader.address.host
        try:
            return await self._ask(client, leader.address, request, max_version)
        except AttemptFailedError:
            self._leaders.pop(partition, None)
            raise

    async def _send_leader(self, partition: TopicPartition, request: Request[ResponseT]) -> ResponseT:
        return await self._ask_leader(partition, self._client, request)

    async def _send(self, address: Address, request: Request[ResponseT]) -> ResponseT:
        return await self._ask(self._client, address, request)

    def _check_leader(self, partition: TopicPartition, code: ErrorCode, what: str) -> None:
        if code is not ErrorCode.none:
            self._leaders.pop(partition, None)
        _check(code, what)

    async def _ask(
        self, client: KafkaClient, address: Address, request: Request[ResponseT], max_version: int | None = None
    ) -> ResponseT:
        api, asked_s = ApiKey(request.api_key).name, asyncio.get_running_loop().time()
        try:
            return await client.send(address, request, max_version=max_version, timeout_s=ATTEMPT_TIMEOUT_S)
        except OSError as error:
            if isinstance(error, RequestTimedOutError):
                self._on_unanswered(address.host, api, asked_s)
            raise AttemptFailedError(f"{api} to {address}: {error}") from error


def _check(code: int, what: str) -> None:
    error = ErrorCode(code)
    if error is not ErrorCode.none:
        raise KafkaError(error, what)


class _OfTopic(Protocol[AnswerT_co]):
    """The answers for the partitions of one topic."""

    @property
    def partitions(self) -> Sequence[AnswerT_co]: ...


def _only(topics: Iterable[_OfTopic[AnswerT_co]]) -> AnswerT_co:
    """Return the answer for the one partition that was asked for."""
    (answer,) = (answer for topic in topics for answer in topic.partitions)
    return answer
