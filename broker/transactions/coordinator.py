"""The transaction coordinator of one broker: the requests of its transactional ids (`coordinator.roles` says which).

Without being asked it aborts transactions that are open for too long, and forgets transactional ids that are not used.
"""

from __future__ import annotations

from collections.abc import Callable

from ...protocol import TRANSACTION_STATE_TOPIC, ErrorCode, TopicPartition
from ..cluster.view import ClusterView, NewTopic
from ..coordinator.roles import Coordinator
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


class TransactionCoordinator(Coordinator[ActiveShard]):
    """See the module's docstring."""

    topic_name = TRANSACTION_STATE_TOPIC
    noun = "transactional id"
    replication_key = "transaction.state.log.replication.factor"

    def __init__(self, view: ClusterView, services: ShardServices) -> None:
        super().__init__(view, _new_topic(services.settings))
        self.settings = services.settings
        self._services = services

    async def close(self) -> None:
        """Fail every waiting request with NOT_COORDINATOR, so that its client looks for another."""
        await super().close()
        await self._services.markers.close()

    def _make_shard(self, partition: Partition) -> ActiveShard:
        # Only now: most brokers of a cluster without transactions never lead such a partition.
        if not self._upkeep:
            self._each(self.settings.abort_interval_ms, ActiveShard.abort_timed_out)
            self._each(self.settings.expire_interval_ms, ActiveShard.expire)
        return ActiveShard(partition, self._services)

    async def ask(self, transactional_id: str, event_of: Callable[[Token], Event], *, parks: bool = True) -> Reply:
        """Return the answer to a request; raise KafkaError as in `coordinator.roles`. `parks`: as in `active_shard`."""
        return await self.shard_for(transactional_id).ask(transactional_id, event_of, parks=parks)

    def verify(
        self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition]
    ) -> ErrorCode | frozenset[TopicPartition]:
        """Return those of the partitions that are in the producer's ongoing transaction, or why it has none."""
        return self.shard_for(transactional_id).shard.verify(transactional_id, producer, partitions)

    def described(self, transactional_id: str) -> Transaction | None:
        """Return a transactional id as it is now, None if it is unknown; raise KafkaError as in `coordinator.roles`."""
        return self.shard_for(transactional_id).shard.transactions.get(transactional_id)
