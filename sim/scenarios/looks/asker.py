"""Who asks: one client for all looks, and one stream of random numbers, in the order of the looks."""

from __future__ import annotations

from random import Random
from typing import Final

from ....protocol.messages import Request, ResponseT
from ....protocol.net import Address, KafkaClient
from ...judges.core.truth import ClusterTruth

TIMEOUT_S: Final = 4.0


def broker_addresses(truth: ClusterTruth) -> list[Address]:
    """Return those of all brokers that the metadata have."""
    return [Address(each.host, each.port) for each in truth.image.brokers.values()]


class Asker:
    """Asks the brokers that the metadata have."""

    def __init__(self, truth: ClusterTruth, client_id: str, rng: Random) -> None:
        self._truth = truth
        self.client = KafkaClient(client_id=client_id, random=rng)
        self.rng = rng

    async def close(self) -> None:
        await self.client.close()

    @property
    def addresses(self) -> dict[int, Address]:
        """The addresses of all brokers, by id."""
        return {each.id: Address(each.host, each.port) for each in self._truth.image.brokers.values()}

    async def ask(self, broker_id: int, request: Request[ResponseT]) -> ResponseT:
        return await self.client.send(self.addresses[broker_id], request, timeout_s=TIMEOUT_S)

    async def ask_any(self, request: Request[ResponseT]) -> ResponseT:
        return await self.ask(self.rng.choice(sorted(self.addresses)), request)
