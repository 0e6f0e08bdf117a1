"""The clients of a cluster: who sends to each partition of the main topic, and who reads it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from random import Random
from typing import Final

from ...protocol import TopicPartition
from ...protocol.net import Address
from ..judges.core.events import AnswerMissing, Throttled
from ..judges.core.history import ACKS_ALL
from ..judges.core.throttles import THROTTLED
from ..machine.world import World
from .client import SimClient
from .cluster_options import READERS_RACK, ClusterOptions
from .pipelined import PipelinedProducer
from .workload import Pace, Producer, Reader, Shared

THROTTLED_GAP_S: Final = 0.3
Work = Callable[[], Coroutine[None, None, None]]


class ClusterClients:
    """The clients that `options` asks for."""

    def __init__(
        self,
        world: World,
        options: ClusterOptions,
        addresses: Sequence[Address],
        shared: Shared,
        *,
        has_throttled: bool = False,
    ) -> None:
        self._world = world
        self._options = options
        self._addresses = addresses
        self._shared = shared
        self._has_throttled = has_throttled
        self._readers: list[SimClient] = []

    @property
    def follower_reads(self) -> int:
        """Fetches of consumers that followers have answered with records."""
        return sum(client.follower_reads for client in self._readers)

    def of(self, partition: TopicPartition) -> list[tuple[str, str, Work]]:
        """Name, host, and what the client process does."""
        options = self._options
        works: list[tuple[str, str, Work]] = []
        kind = PipelinedProducer if options.pipelined else Producer
        for number in range(options.producers + options.weak_producers):
            acks = ACKS_ALL if number < options.producers else 1
            name = f"producer-{partition}-{number}"
            works.append((name, "producers", self._producer(kind, name, partition, acks).run))
        for number in range(options.transactional_producers):
            name = f"transactions-{partition}-{number}"
            works.append((name, "producers", self._producer(Producer, name, partition, ACKS_ALL).run_transactions))
        reader, committed = f"reader-{partition}", f"committed-{partition}"
        works.append((reader, "readers", self._reader(reader, partition).run))
        works.append((committed, "readers", self._reader(committed, partition, committed=True).run))
        sweeper = f"sweeper-{partition}"
        works.append((sweeper, "readers", self._reader(sweeper, partition).sweep))
        if self._has_throttled:
            works.append((f"throttled-producer-{partition}", "producers", self._throttled_producer(partition).run))
            works.append((f"throttled-reader-{partition}", "readers", self._throttled_reader(partition).run))
        return works

    def _throttled_producer(self, partition: TopicPartition) -> Producer:
        name = f"throttled-producer-{partition}"
        rng = self._world.rng(name)
        pace = Pace(gap_s=THROTTLED_GAP_S)
        return Producer(name, partition, ACKS_ALL, self._throttled_client(rng), self._shared, rng, pace)

    def _throttled_reader(self, partition: TopicPartition) -> Reader:
        name = f"throttled-reader-{partition}"
        rng = self._world.rng(name)
        return Reader(name, partition, self._throttled_client(rng), self._shared, rng)

    def _throttled_client(self, rng: Random) -> SimClient:
        """Its requests wait for as long as its quota says."""
        return SimClient(THROTTLED, self._addresses, rng, on_throttled=partial(self._throttled, THROTTLED))

    def _client(self, client_id: str, rng: Random, host: str, rack: str = "") -> SimClient:
        return SimClient(
            client_id,
            self._addresses,
            rng,
            rack,
            partial(self._throttled, client_id),
            on_unanswered=partial(self._unanswered, client_id, host),
            fetch_bytes=self._options.read_bytes,
        )

    def _unanswered(self, client: str, client_host: str, host: str, api: str, asked_s: float) -> None:
        self._shared.publish(AnswerMissing(client, client_host, host, api, int(asked_s * 1000)))

    def _throttled(self, client_id: str, key: str, throttle_ms: int) -> None:
        self._shared.publish(Throttled(client_id, key, throttle_ms))

    def _producer(self, kind: type[Producer], name: str, partition: TopicPartition, acks: int) -> Producer:
        rng = self._world.rng(name)
        pace = Pace(gap_s=self._options.gap_ms / 1000)
        return kind(name, partition, acks, self._client(name, rng, "producers"), self._shared, rng, pace)

    def _reader(self, name: str, partition: TopicPartition, *, committed: bool = False) -> Reader:
        rng = self._world.rng(name)
        client = self._client(name, rng, "readers", READERS_RACK if self._options.racks else "")
        self._readers.append(client)
        return Reader(name, partition, client, self._shared, rng, is_read_committed=committed)
