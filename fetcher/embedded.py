"""A follower in a program of one's own: one partition of any Kafka cluster, kept as a log in a directory.

    follow -> leader found, directory checked, log recovered -> [ fetched, appended ]* -> flushed, closed
                 ^                                                     |
                 +---------- another leader, another epoch ------------+

**It fetches as a consumer** (`replica_id` -1), because a leader serves a replica only if the controller has assigned
it to the partition. It follows from that:

| what               | as a replica                 | here                                                        |
|--------------------|------------------------------|-------------------------------------------------------------|
| what is fetched    | up to the leader's log end   | up to its high watermark: only what is committed            |
| high watermark     | follows the leader's         | is the end of the local log                                 |
| ISR, acks          | the leader waits for it      | no leader waits for it, no producer is delayed              |
| a tiered partition | begins after the tier's end  | is copied whole: the leader reads for it what is tiered     |
| leader epochs      | are compared in every fetch  | the same (KIP-595's last fetched epoch, KIP-320's current)  |
| divergence         | cuts what is not committed   | cuts what an unclean election has lost, and nothing else    |
| rights             | CLUSTER_ACTION               | READ and DESCRIBE of the topic                              |

Batches are kept byte for byte: codecs, producers, markers of transactions, leader epochs. The log start follows the
leader's: what the cluster has deleted is deleted here. Where the leader's log begins above the local end (it was away
for longer than the retention) the copy begins again there; `start_offset` shows it.

What was appended is durable after `flush`, after the block's end, and as `config` says (`flush.messages`); a process
that is killed loses nothing, a machine that loses power only what was not flushed, and that is fetched again.

Failure points: no broker answers, the partition has no leader, or the leader's `replica.selector.class` sends consumers
without a rack elsewhere (REPLICA_NOT_AVAILABLE): tried again for ever, `trouble` says why. The topic
was deleted and created again, or the disk failed: FollowEndedError from every wait.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final
from uuid import UUID

from ..light_dataclass import dataclass
from ..log import PartitionLog, check_owner, records_from
from ..log.core import LeaderEpochCache, LogConfig, parse_host_and_port
from ..log.disk import OsDisk
from ..log.keeper import AdoptedState, LogManager, LogServices
from ..log.replica import LogOffsets
from ..protocol import OUTSIDE, ErrorCode, KafkaError, OperatorError, TopicIdPartition, TopicPartition, metadata_of
from ..protocol.messages.cluster import MetadataResponse
from ..protocol.net import Address, BrokerUnavailableError, KafkaClient, cancelled
from ..protocol.records import Record
from ..remote.core import OffsetAndEpoch
from ..security import ClientIdentity
from .bootstrap_runner import Bootstrapper, BootstrapSettings
from .core.leader_offsets import EARLIEST_LOCAL_TIMESTAMP, EARLIEST_TIMESTAMP
from .core.policies import LocalLogStart
from .followed_replica import ReplicaState
from .leader_endpoint import BrokerEndpoint
from .replica_fetcher import FetcherConfig, ReplicaFetcher

_log = logging.getLogger(__name__)

OWNER: Final = "tierfetch-follower"
"""The cluster id in `meta.properties`: every broker refuses the directory, as `follow` refuses a broker's."""
CONSUMER: Final = -1
TIMEOUT_S: Final = 10.0
LOOK_INTERVAL_S: Final = 1.0
"""How often the cluster is asked who leads, while fetching goes well."""
TROUBLE_INTERVAL_S: Final = 0.1
KEEP_ALL: Final = LogConfig(retention_ms=-1, retention_bytes=-1)


class FollowEndedError(OperatorError):
    """The partition cannot be followed any longer; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class _Leader:
    """Who leads the partition, by the cluster's metadata."""

    topic_id: UUID
    broker_id: int
    epoch: int
    address: Address


class ConsumersEndpoint(BrokerEndpoint):
    """A leader as a consumer sees it: its log begins at the log start, the tier included."""

    async def list_offset(self, partition: TopicIdPartition, leader_epoch: int, timestamp: int) -> OffsetAndEpoch:
        asked = EARLIEST_TIMESTAMP if timestamp == EARLIEST_LOCAL_TIMESTAMP else timestamp
        return await super().list_offset(partition, leader_epoch, asked)


class _Replica:
    """The local log as `fetcher.ports.FollowerPartition`."""

    is_tiered = is_compacted = is_never_in_isr = False

    def __init__(self, partition: TopicIdPartition, log: PartitionLog) -> None:
        self.topic_id_partition = partition
        self.leader_epoch = -1
        self.log = log
        self.changed = asyncio.Event()

    @property
    def offsets(self) -> LogOffsets:
        return self.log.state.offsets

    @property
    def epochs(self) -> LeaderEpochCache:
        return self.log.state.epochs

    @property
    def has_failed(self) -> bool:
        return self.log.state.failure is not None

    @property
    def has_room(self) -> bool:
        return self.log.state.keeper.accepts_replicas

    def append(self, records: memoryview) -> Awaitable[object]:
        return self.log.append_as_follower(records)

    async def truncate_to(self, offset: int) -> None:
        await self.log.truncate_to(offset)

    async def start_at(self, offset: int) -> None:
        await self.log.truncate_fully_and_start_at(offset)

    async def adopt(self, state: AdoptedState) -> None:
        raise AssertionError("nothing is adopted: the partition is not tiered here")

    def update_high_watermark(self, offset: int) -> None:
        self.log.update_high_watermark(offset)
        self.notify()

    async def follow_log_start_offset(self, offset: int) -> None:
        await self.log.follow_log_start_offset(offset)
        await self.log.delete_old_segments_by_log_start()

    def notify(self) -> None:
        """Wake everybody who waits for a change."""
        self.changed.set()
        self.changed = asyncio.Event()


class EmbeddedFollower:
    """A partition that is being followed; `follow` makes it. Any number of tasks of one event loop may use it."""

    def __init__(
        self,
        replica: _Replica,
        seeds: Sequence[Address],
        identity: ClientIdentity | None,
        config: FetcherConfig,
        rng: random.Random,
    ) -> None:
        self._replica = replica
        self._seeds = tuple(seeds)
        self._identity = identity
        self._rng = rng
        self._client = _client(rng, identity)
        self._config = config
        self._following: asyncio.Task[None] | None = None
        self._leader: _Leader | None = None
        self._fetcher: ReplicaFetcher | None = None
        self._running: asyncio.Task[None] | None = None
        self._trouble: str | None = "the leader has not answered yet"
        self._ended: FollowEndedError | None = None

    @property
    def partition(self) -> TopicIdPartition:
        """The partition: its `topic`, `partition` and `topic_id`."""
        return self._replica.topic_id_partition

    @property
    def leader(self) -> int | None:
        """The id of the broker that is fetched from; None while there is none."""
        return None if self._leader is None else self._leader.broker_id

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of that broker; -1 while there is none."""
        return self._replica.leader_epoch

    @property
    def start_offset(self) -> int:
        """The offset of the first record of the copy."""
        return self._replica.offsets.log_start_offset

    @property
    def end_offset(self) -> int:
        """The offset after the last record of the copy; all below it is committed in the cluster."""
        return self._replica.offsets.high_watermark

    @property
    def is_caught_up(self) -> bool:
        """Whether the copy had every committed record when the leader answered last."""
        fetcher = self._fetcher
        replica = None if fetcher is None else fetcher.replicas.get(self.partition)
        return replica is not None and replica.is_caught_up and replica.state is ReplicaState.FETCHING

    @property
    def trouble(self) -> str | None:
        """Why nothing is fetched at the moment; None if all is well."""
        fetcher = self._fetcher
        replica = None if fetcher is None else fetcher.replicas.get(self.partition)
        if replica is not None and replica.state in (ReplicaState.BACKOFF, ReplicaState.FAILED):
            return replica.reason
        return self._trouble

    async def wait_caught_up(self) -> int:
        """Wait until the copy has every record that is committed, and return its end offset. This waits as long as the
        cluster cannot be reached: put `asyncio.timeout` around it, and see `trouble`. Raise FollowEndedError.

            async with asyncio.timeout(60):
                await follower.wait_caught_up()
        """
        while not self.is_caught_up:
            await self._wait_change()
        return self.end_offset

    async def wait_newer(self, offset: int) -> int:
        """Wait until the copy ends above `offset`, as long as that takes, and return its end offset. Raise
        FollowEndedError.

            end_offset = await follower.wait_newer(end_offset)
        """
        while self.end_offset <= offset:
            await self._wait_change()
        return self.end_offset

    async def read(self, offset: int | None = None) -> AsyncIterator[Record]:
        """Yield the records from `offset` on, or from the first, to what is the end when the reading begins: aborted
        ones and markers of transactions too, as they are in the log.

        OFFSET_OUT_OF_RANGE (KafkaError) outside `[start_offset, end_offset]`. CorruptRecordError if the bytes have
        changed on the disk. OSError from the disk.

            async for record in follower.read():
                print(record.offset, record.value)
        """
        position = self.start_offset if offset is None else offset
        async for record in records_from(self._replica.log, position, self.end_offset):
            yield record

    async def flush(self) -> int:
        """Make durable what has been fetched so far, and return the offset after it. OSError, after which the log
        accepts nothing.

            flushed_to = await follower.flush()
        """
        end_offset = self._replica.offsets.log_end_offset
        await self._replica.log.flush()
        return end_offset

    async def _wait_change(self) -> None:
        if self._ended is not None:
            raise self._ended
        await self._replica.changed.wait()

    # --- the leader -------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[None]:
        """Follow the leader of the moment until the block ends; afterwards nothing is appended any longer."""
        try:
            self._following = asyncio.create_task(self._follow(), name=f"leader of {self.partition.topic_partition}")
            self._following.add_done_callback(self._report)
            yield
        finally:
            if self._following is not None:
                await cancelled(self._following)
            await self._stop_fetching()
            await self._client.close()
            self._ended = self._ended or FollowEndedError("the block of `follow` has ended")
            self._replica.notify()

    async def _follow(self) -> None:
        while self._ended is None:
            try:
                await self._look(await _find_leader(self._client, self._seeds, self.partition.topic_partition))
            except OUTSIDE as error:
                self._trouble = str(error)
            if self._replica.has_failed:
                self._end(f"the disk failed: {self._replica.log.state.failure}; open the directory again")
            self._replica.notify()
            await asyncio.sleep(LOOK_INTERVAL_S if self.is_caught_up else TROUBLE_INTERVAL_S)
        await self._stop_fetching()

    def _report(self, following: asyncio.Task[None]) -> None:
        """End the waits of callers where the task has ended by an internal error."""
        if not following.cancelled() and (error := following.exception()) is not None:
            self._end(f"internal error: {error!r}")
            self._replica.notify()

    async def _look(self, leader: _Leader) -> None:
        """Fetch from this leader, unless that is done already, or its epoch is an old one."""
        if leader.topic_id != self.partition.topic_id:
            self._end(
                f"{self.partition.topic_partition} is of topic id {leader.topic_id} now, the copy of "
                f"{self.partition.topic_id}: the topic was deleted and created again; follow it into another directory"
            )
            return
        if self._leader is None or leader.epoch > self._leader.epoch:
            await self._switch(leader)
        self._trouble = None

    def _end(self, reason: str) -> None:
        _log.error("%s: %s", self.partition.topic_partition, reason)
        self._ended = FollowEndedError(reason)

    async def _switch(self, leader: _Leader) -> None:
        await self._stop_fetching()
        self._leader, self._replica.leader_epoch = leader, leader.epoch
        endpoint = ConsumersEndpoint(
            leader.broker_id,
            lambda: leader.address,
            replica_id=CONSUMER,
            replica_epoch=lambda: -1,
            fetches=_client(self._rng, self._identity),
            questions=self._client,
            timeout_s=TIMEOUT_S,
        )
        settings = BootstrapSettings(policy=LocalLogStart(), is_option_enabled=False, is_feature_supported=False)
        self._fetcher = ReplicaFetcher(
            endpoint, Bootstrapper(lambda: settings, None), self._config, _derived(self._rng)
        )
        self._fetcher.add(self._replica)
        self._running = asyncio.create_task(self._fetcher.run(), name=f"follower of {self.partition.topic_partition}")
        self._running.add_done_callback(self._report)

    async def _stop_fetching(self) -> None:
        """Afterwards nothing is appended any longer."""
        fetcher, running = self._fetcher, self._running
        self._fetcher = self._running = None
        if fetcher is not None:
            await fetcher.remove(self.partition)
        if running is not None:
            await cancelled(running)


def _client(rng: random.Random, identity: ClientIdentity | None) -> KafkaClient:
    return KafkaClient(client_id=OWNER, random=_derived(rng), identity=identity)


def _derived(rng: random.Random) -> random.Random:
    return random.Random(rng.getrandbits(128))


async def _find_leader(client: KafkaClient, seeds: Sequence[Address], partition: TopicPartition) -> _Leader:
    """Ask the brokers in turn, until one knows a leader. BrokerUnavailableError if none answers, KafkaError if none of
    those that answer does.
    """
    failures: list[str] = []
    refusal: KafkaError | None = None
    for address in seeds:
        try:
            response = await client.send(address, metadata_of([partition.topic]), timeout_s=TIMEOUT_S)
            return _leader_in(response, partition, address)
        except KafkaError as error:  # it may be cut off from the others, and know nothing newer
            refusal = refusal or error
        except OUTSIDE as error:
            failures.append(str(error))
    raise refusal or BrokerUnavailableError("; ".join(failures))


def _leader_in(response: MetadataResponse, partition: TopicPartition, address: Address) -> _Leader:
    topic = next((each for each in response.topics if each.name == partition.topic), None)
    if topic is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"{address} knows no {partition}")
    if topic.error_code is not ErrorCode.none:
        raise KafkaError(topic.error_code, f"{partition}, by {address}")
    found = {each.partition_index: each for each in topic.partitions}.get(partition.partition)
    if found is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"{address} knows no {partition}")
    brokers = {broker.node_id: Address(broker.host, broker.port) for broker in response.brokers}
    if found.leader_id not in brokers:
        raise KafkaError(ErrorCode.leader_not_available, f"{partition} has no leader, by {address}")
    return _Leader(topic.topic_id or UUID(int=0), found.leader_id, found.leader_epoch, brokers[found.leader_id])


@asynccontextmanager
async def follow(
    bootstrap: str,
    topic: str,
    partition: int,
    directory: str | os.PathLike[str],
    *,
    identity: ClientIdentity | None = None,
    config: LogConfig = KEEP_ALL,
    fetching: FetcherConfig | None = None,
) -> AsyncIterator[EmbeddedFollower]:
    """Follow one partition of a cluster, tierfetch's or Apache Kafka's, into a directory, until the block ends.

    `bootstrap` is HOST:PORT of brokers, separated by commas; `identity` is how to connect (TLS, SASL), plaintext
    without. An absent or empty directory begins at the partition's log start, one that has a part resumes after it.
    `config` has Kafka's topic configuration; its retention is not applied, the leader's is. The directory
    `<topic>-<partition>` in it is one of Kafka's (`tierfetch.log.verify_log` reads it).

    Raise OperatorError for a bad address, and for a directory of a broker, of another partition, of another topic id,
    with foreign files, or in use. Raise BrokerUnavailableError (an OSError) where no broker answers, KafkaError where
    the partition is unknown or without a leader; once the block has begun, both are tried again instead.

        async with tierfetch.fetcher.follow("127.0.0.1:9092", "orders", 0, "copy") as follower:
            await follower.wait_caught_up()
    """
    try:
        seeds = [Address(*parse_host_and_port(each.strip())) for each in bootstrap.split(",")]
    except ValueError as error:
        raise OperatorError(f"bootstrap={bootstrap!r}: {error}") from None
    key, path = TopicPartition(topic, partition), Path(directory).absolute()
    async with AsyncExitStack() as stack:
        disk = OsDisk()
        stack.push_async_callback(disk.close)
        await check_owner(disk, path, OWNER, "follow")
        services = LogServices(
            disk=disk,
            rng=random.SystemRandom(),
            now_ms=lambda: time.time_ns() // 1_000_000,
            config_of=lambda _: config,
        )
        following = follow_with(services, seeds, key, path, identity=identity, fetching=fetching)
        yield await stack.enter_async_context(following)


@asynccontextmanager
async def follow_with(
    services: LogServices,
    seeds: Sequence[Address],
    partition: TopicPartition,
    directory: Path,
    *,
    identity: ClientIdentity | None = None,
    fetching: FetcherConfig | None = None,
) -> AsyncIterator[EmbeddedFollower]:
    """As `follow`, on the disk, by the chance and the clock of `services`; whose the directory is was checked."""
    async with AsyncExitStack() as stack:
        asking = _client(services.rng, identity)
        stack.push_async_callback(asking.close)
        leader = await _find_leader(asking, seeds, partition)
        followed = TopicIdPartition(leader.topic_id, partition.topic, partition.partition)
        replica = _Replica(followed, await _open_log(stack, services, directory, followed))
        config = fetching or FetcherConfig()
        follower = EmbeddedFollower(replica, (*seeds, leader.address), identity, config, services.rng)
        await stack.enter_async_context(follower._open())
        yield follower


async def _open_log(
    stack: AsyncExitStack, services: LogServices, path: Path, partition: TopicIdPartition
) -> PartitionLog:
    """Return the partition's log; the stack flushes and closes it. OperatorError if the directory has another one."""
    manager = LogManager([path], services, cluster_id=OWNER, node_id=0)
    stack.push_async_callback(manager.close)
    await manager.identify()
    await manager.load()
    others = sorted(str(each) for each in manager.known_partitions if each != partition.topic_partition)
    if others:
        raise OperatorError(f"{path} has a copy of {others[0]}: each partition needs a directory of its own")
    known = await manager.topic_id_of(partition.topic_partition)
    if known not in (None, partition.topic_id):
        raise OperatorError(
            f"{path} has a copy of {partition.topic_partition} with topic id {known}, the cluster's has "
            f"{partition.topic_id}: it is another topic; follow it into another directory"
        )
    log = manager.get(partition.topic_partition) or await manager.create(partition.topic_partition, partition.topic_id)
    # All of it was committed when it was fetched.
    log.update_high_watermark(log.state.log_end_offset)
    return log
