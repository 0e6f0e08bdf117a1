"""Two living processes with one broker id: another one, with an empty disk, asks to be registered in the place of a
broker that lives, at that broker's address.

It asks as often as a broker that starts does, and only while the controllers are in contact with the one that lives:
whatever registers it is a mistake (`judges.core.fencing`, "live brokers serve"; `judges.core.truth`, "last member
stays").
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Final
from uuid import UUID

from ....protocol import OUTSIDE
from ....protocol.messages.brokers import (
    BrokerRegistrationRequest,
    BrokerRegistrationRequestFeature,
    BrokerRegistrationRequestListener,
)
from ....protocol.net import Address, KafkaClient
from ...judges.core.truth import ClusterTruth
from ..controllers import CLUSTER_ID, CONTROLLER_PORT

KNOCKS: Final = 20
PAUSE_S: Final = (0.02, 0.15)
TIMEOUT_S: Final = 0.2


class Impostors:
    """`knock` runs on a host that no fault hits. `is_in_contact`: whether a broker lives, and sends heartbeats."""

    def __init__(
        self, controllers: Mapping[str, int], truth: ClusterTruth, is_in_contact: Callable[[int], bool], rng: Random
    ) -> None:
        self._addresses = [Address(host, CONTROLLER_PORT) for host in controllers]
        self._truth = truth
        self._is_in_contact = is_in_contact
        self._rng = rng

    async def knock(self, broker_id: int) -> None:
        """Ask all controllers, again and again."""
        incarnation, directory = self._uuid(), self._uuid()
        client = KafkaClient(client_id=f"impostor-of-{broker_id}", random=self._rng)
        try:
            for _ in range(KNOCKS):
                for address in self._addresses:
                    if self._is_in_contact(broker_id):
                        await self._ask(client, address, self._registration(broker_id, incarnation, directory))
                await asyncio.sleep(self._rng.uniform(*PAUSE_S))
        finally:
            await client.close()

    def _registration(self, broker_id: int, incarnation: UUID, directory: UUID) -> BrokerRegistrationRequest:
        broker = self._truth.metadata.brokers[broker_id]
        return BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=incarnation,
            listeners=tuple(
                BrokerRegistrationRequestListener(
                    name=item.name, host=item.host, port=item.port, security_protocol=item.security_protocol
                )
                for item in broker.end_points
            ),
            features=tuple(
                BrokerRegistrationRequestFeature(
                    name=item.name,
                    min_supported_version=item.min_supported_version,
                    max_supported_version=item.max_supported_version,
                )
                for item in broker.features
            ),
            rack=broker.rack,
            log_dirs=(directory,),
        )

    def _uuid(self) -> UUID:
        return UUID(int=self._rng.getrandbits(128), version=4)

    @staticmethod
    async def _ask(client: KafkaClient, address: Address, request: BrokerRegistrationRequest) -> None:
        try:
            await client.send(address, request, timeout_s=TIMEOUT_S)
        except OUTSIDE:
            return
