"""Brokers of the past: a process that hung wakes up when its successor has registered long since, and says to the
controllers and to the leaders of its partitions what it was about to say.

Nothing that it says may count. It says so from a host of its own, under the epoch of the last
registration but one: heartbeats, and fetches from the end of each leader's log, as of a follower that has everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Final

from ....broker import Broker
from ....broker.cluster import ClusterImage
from ....protocol import OUTSIDE, TopicPartition
from ....protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from ....protocol.messages.brokers import BrokerHeartbeatRequest
from ....protocol.net import Address, KafkaClient
from ...judges.core.events import MetadataChanged, Observed
from ..controllers import CONTROLLER_PORT

TIMEOUT_S: Final = 2.0
FETCHES: Final = 20
"""How often it fetches from each leader: what it says of itself is wrong only while the one that lives lags."""
PAUSE_S: Final = (0.02, 0.1)


class ZombieBrokers:
    """Remembers the epochs of past registrations; `wake` runs on a host that no fault hits."""

    def __init__(
        self,
        controllers: Mapping[str, int],
        rng: Random,
        brokers: Callable[[], Mapping[int, Broker | None]] = dict,
    ) -> None:
        self._brokers = brokers
        self._addresses = [Address(host, CONTROLLER_PORT) for host in controllers]
        self._rng = rng
        self._image = ClusterImage("", {}, {}, {})
        self._epochs: dict[int, int] = {}
        """Epochs of the registrations before the current ones, by broker."""

    def on(self, event: Observed) -> None:
        if isinstance(event, MetadataChanged):
            self._changed(event.before, event.after)

    def _changed(self, before: ClusterImage, after: ClusterImage) -> None:
        self._image = after
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
            for _ in range(FETCHES):
                await asyncio.gather(
                    *(self._say(client, address, fetch) for address, fetch in self._fetches(broker_id, epoch))
                )
                await asyncio.sleep(self._rng.uniform(*PAUSE_S))
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

    def _fetches(self, broker_id: int, epoch: int) -> Iterator[tuple[Address, FetchRequest]]:
        for topic in self._image.topics.values():
            for number, now in topic.partitions.items():
                leader, broker = self._image.brokers.get(now.leader), self._brokers().get(now.leader)
                hosted = None if broker is None else broker.hosted.partitions.get(TopicPartition(topic.name, number))
                if leader is None or hosted is None or broker_id not in now.replicas or now.leader == broker_id:
                    continue
                wanted = FetchPartition(
                    number, current_leader_epoch=now.leader_epoch, fetch_offset=hosted.log.state.log_end_offset
                )
                topics = (FetchTopic((wanted,), topic.name, topic.topic_id),)
                fetch = FetchRequest(
                    max_wait_ms=0, min_bytes=0, topics=topics, replica_id=broker_id, replica_epoch=epoch
                )
                yield Address(leader.host, leader.port), fetch

    @staticmethod
    async def _say(client: KafkaClient, address: Address, request: BrokerHeartbeatRequest | FetchRequest) -> None:
        try:
            await client.send(address, request, timeout_s=TIMEOUT_S)
        except OUTSIDE:
            return
