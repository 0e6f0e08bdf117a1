"""The transaction coordinator of one broker: which transactional ids are its own, and what becomes of their requests.

A transactional id belongs to partition `hash(id) % partitions` of `__transaction_state`; the leader of that partition
is its coordinator. The replica manager reports roles (`led`, `resigned`).

| request for a transactional id | when | answer |
|---|---|---|
| whose partition is led elsewhere, or just given up | | NOT_COORDINATOR |
| | it is being read | COORDINATOR_LOAD_IN_PROGRESS |

The topic is made by the first who looks for a coordinator. Without being asked the coordinator aborts transactions that
are open for too long, and forgets transactional ids that are not used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

from ...protocol import TRANSACTION_STATE_TOPIC, ErrorCode, KafkaError, TopicPartition
from ..cluster.state_topic import StateTopic
from ..cluster.view import BrokerRegistration, ClusterView, NewTopic
from ..groups.coordinator import partition_for
from ..replicas.partition import Partition
from .active_shard import ActiveShard, ShardServices
from .core.events import Event, Producer, Reply, Token
from .core.transaction import Transaction
from .settings import TransactionSettings


def _new_topic(settings: TransactionSettings) -> NewTopic:
    return NewTopic(
        TRANSACTION_STATE_TOPIC,
        settings.topic_partitions,
        settings.topic_replication_factor,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(settings.topic_min_isr),
            "segment.bytes": str(settings.topic_segment_bytes),
            "unclean.leader.election.enable": "false",
        },
    )


class TransactionCoordinator:
    """See the module's docstring."""

    def __init__(self, view: ClusterView, services: ShardServices) -> None:
        self.settings = services.settings
        self._services = services
        self._topic = StateTopic(
            view, _new_topic(services.settings), "transaction.state.log.replication.factor", "no transaction"
        )
        self._shards: dict[int, ActiveShard] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._upkeep: list[asyncio.Task[None]] = []

    def _begin_upkeep(self) -> None:
        settings = self.settings
        self._upkeep = self._upkeep or [
            asyncio.create_task(self._each(settings.abort_interval_ms, ActiveShard.abort_timed_out), name="abort"),
            asyncio.create_task(self._each(settings.expire_interval_ms, ActiveShard.expire), name="expire"),
        ]

    async def close(self) -> None:
        """Fail every waiting request with NOT_COORDINATOR, so that its client looks for another."""
        for task in self._upkeep:
            task.cancel()
        await asyncio.gather(*self._upkeep, return_exceptions=True)
        for number in list(self._shards):
            self._close(number)
        await asyncio.gather(*self._closing)
        await self._services.markers.close()

    # Roles.

    def led(self, partition: Partition) -> None:
        """This broker leads a partition under a new epoch; its transactional ids are read again."""
        if partition.partition.topic == TRANSACTION_STATE_TOPIC:
            number = partition.partition.partition
            # Always rebuilt from the log: what this process held was of another epoch, and may not be committed.
            self._close(number)
            self._shards[number] = ActiveShard(partition, self._services)
            # Only now: most brokers of a cluster without transactions never lead such a partition.
            self._begin_upkeep()

    def resigned(self, partition: TopicPartition) -> None:
        """This broker no longer leads it."""
        if partition.topic == TRANSACTION_STATE_TOPIC:
            self._close(partition.partition)

    def _close(self, number: int) -> None:
        active = self._shards.pop(number, None)
        if active is not None:
            reason = KafkaError(ErrorCode.not_coordinator, f"{active.partition.partition} is no longer led here")
            task = asyncio.create_task(active.close(reason), name=f"close-transactions-{number}")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    # Where a transactional id is.

    async def find(self, transactional_id: str) -> BrokerRegistration:
        """Return its coordinator. Raise COORDINATOR_NOT_AVAILABLE while there is none."""
        return self._topic.leader(partition_for(transactional_id, await self._topic.ensure()))

    def find_now(self, transactional_id: str) -> BrokerRegistration | None:
        """Return its coordinator, None if transactions never were: nothing is made. Raise COORDINATOR_NOT_AVAILABLE."""
        partitions = self._topic.partitions
        return None if partitions is None else self._topic.leader(partition_for(transactional_id, partitions))

    def shard_for(self, transactional_id: str) -> ActiveShard:
        """Raise KafkaError as in the module's table."""
        partitions = self._topic.partitions
        active = None if partitions is None else self._shards.get(partition_for(transactional_id, partitions))
        if active is None:
            message = f"transactional id {transactional_id!r} is coordinated elsewhere"
            raise KafkaError(ErrorCode.not_coordinator, message)
        if not active.is_loaded:
            message = f"transactional id {transactional_id!r} is being loaded"
            raise KafkaError(ErrorCode.coordinator_load_in_progress, message)
        return active

    async def ask(self, transactional_id: str, event_of: Callable[[Token], Event]) -> Reply:
        """Return the answer to a request; raise KafkaError as in the module's table."""
        return await self.shard_for(transactional_id).ask(transactional_id, event_of)

    def verify(
        self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition]
    ) -> ErrorCode | frozenset[TopicPartition]:
        """Return those of the partitions that are in the producer's ongoing transaction, or why it has none."""
        return self.shard_for(transactional_id).shard.verify(transactional_id, producer, partitions)

    def described(self, transactional_id: str) -> Transaction | None:
        """Return a transactional id as it is now, None if it is unknown; raise KafkaError as in the module's table."""
        return self.shard_for(transactional_id).shard.transactions.get(transactional_id)

    @property
    def shards(self) -> Iterator[ActiveShard]:
        """The shards of all partitions that are led here, loaded or not, by number."""
        return (self._shards[number] for number in sorted(self._shards))

    # What is done without being asked.

    async def _each(self, interval_ms: int, work: Callable[[ActiveShard], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            for active in list(self.shards):
                if active.is_loaded:
                    await work(active)
