"""Brokers of the past: a process that hung wakes up when its successor has registered long since, and says to the
controllers what it was about to say.

Nothing that it says may count. What it says of itself comes from a host of its own, under the epoch of the last
registration but one.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final

from ...broker.cluster import ClusterImage
from ...protocol import OUTSIDE
from ...protocol.messages.brokers import BrokerHeartbeatRequest
from ...protocol.net.client import Address, KafkaClient
from ..judges.core.events import MetadataChanged, Observed
from .controllers import CONTROLLER_PORT

TIMEOUT_S: Final = 2.0


class ZombieBrokers:
    """Remembers the epochs of past registrations; `wake` runs on a host that no fault hits."""

    def __init__(self, controllers: Mapping[str, int], rng: Random) -> None:
        self._addresses = [Address(host, CONTROLLER_PORT) for host in controllers]
        self._rng = rng
        self._epochs: dict[int, int] = {}
        """Epochs of the registrations before the current ones, by broker."""

    def on(self, event: Observed) -> None:
        if isinstance(event, MetadataChanged):
            self._changed(event.before, event.after)

    def _changed(self, before: ClusterImage, after: ClusterImage) -> None:
        for broker_id, now in after.brokers.items():
            then = before.brokers.get(broker_id)
            if then is not None and then.epoch != now.epoch:
                self._epochs[broker_id] = then.epoch

    async def wake(self, broker_id: int) -> None:
        """Nothing happens if this broker has registered once only."""
        epoch = self._epochs.get(broker_id)
        if epoch is None:
            return
        client = KafkaClient(client_id=f"ghost-of-{broker_id}", random=self._rng)
        try:
            for address in self._addresses:
                await self._say(client, address, self._heartbeat(broker_id, epoch))
        finally:
            await client.close()

    def _heartbeat(self, broker_id: int, epoch: int) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=epoch,
            current_metadata_offset=epoch,
            want_fence=False,
            want_shut_down=self._rng.random() < 0.5,
        )

    @staticmethod
    async def _say(client: KafkaClient, address: Address, heartbeat: BrokerHeartbeatRequest) -> None:
        try:
            await client.send(address, heartbeat, timeout_s=TIMEOUT_S)
        except OUTSIDE:
            return
