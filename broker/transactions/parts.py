"""What a broker has for transactions, composed around its cluster view: ids, coordinator, markers, verifier."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from ...light_dataclass import dataclass
from ...protocol.net import KafkaClient
from ..cluster.producer_ids import ProducerIds
from ..cluster.view import ClusterView
from ..replicas.leadership import WallClock
from .active_shard import ShardServices
from .coordinator import TransactionCoordinator
from .markers import AddressOf, MarkerSender, WriteHere
from .settings import TransactionSettings
from .verifier import TransactionVerifier

TRANSACTION_VERSION: Final = "transaction.version"


@dataclass(frozen=True, slots=True)
class Brokers:
    """How this broker, `node_id`, reaches the others: by a client that it shares, or new ones."""

    node_id: int
    client: KafkaClient
    make_client: Callable[[], KafkaClient]
    address_of: AddressOf


class Transactions:
    """The parts, which stop together."""

    def __init__(
        self,
        view: ClusterView,
        settings: TransactionSettings,
        brokers: Brokers,
        write_here: WriteHere,
        rng: Random,
        now_ms: WallClock,
    ) -> None:
        """`write_here` writes markers to what this broker leads."""
        self.ids = ProducerIds(view)
        timeout_s = settings.request_timeout_ms / 1000
        markers = MarkerSender(
            view, brokers.node_id, brokers.make_client, brokers.address_of, write_here, rng, timeout_s=timeout_s
        )
        self.coordinator = TransactionCoordinator(
            view,
            ShardServices(
                settings=settings,
                rng=rng,
                now_ms=now_ms,
                next_producer_id=self.ids.next,
                transaction_version=lambda: transaction_version(view),
                markers=markers,
            ),
        )
        self.verifier = TransactionVerifier(view, brokers.node_id, self.coordinator, brokers.client, brokers.address_of)

    async def close(self) -> None:
        await self.verifier.close()
        await self.coordinator.close()


def transaction_version(view: ClusterView) -> int:
    """Return the level of `transaction.version` that the cluster runs at."""
    return (view.image.features or {}).get(TRANSACTION_VERSION, 0)
