"""A failover as large as it gets: one broker leads or follows in every partition, and is fenced. Three real controller
processes decide it, write it to three logs, flush them, and replay it; timed from the request that asks for it to its
answer, which comes after the commit.

Brokers are played by this process: they register and ask to be fenced. What clients see of a failover,
with brokers that serve, is another benchmark.
"""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from typing import Final
from uuid import UUID

from tierfetch.cli.local import LocalQuorum
from tierfetch.controller import SUPPORTED_FEATURES
from tierfetch.protocol import ErrorCode
from tierfetch.protocol.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationRequestFeature,
    BrokerRegistrationRequestListener,
)
from tierfetch.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from tierfetch.protocol.net import Address, KafkaClient

from .measure import Results
from .systems import TIERFETCH, System

SIZES: Final = (1_000, 3_000, 10_000, 30_000)
BROKERS: Final = (11, 12, 13)
PARTITIONS_PER_TOPIC: Final = 1_000
TIMEOUT_S: Final = 120.0
SESSION_TIMEOUT_MS: Final = 3_600_000


def run(system: System, base: Path, results: Results, total_mb: int, runs: int) -> None:
    """The curve from 1,000 partitions up."""
    del total_mb
    if system is not TIERFETCH:
        return
    for size in SIZES:
        for number in range(runs):
            configs = {"broker.session.timeout.ms": str(SESSION_TIMEOUT_MS)}
            with LocalQuorum(base / f"failover-{size}-{number}", configs=configs) as quorum:
                leader = Address("127.0.0.1", quorum.port(quorum.leader()))
                taken_s = asyncio.run(_measure(leader, quorum.cluster_id, size))
            case = f"{size:,} partitions, 3 controllers"
            results.add("failover", case, system.name, "decided, committed, replayed", taken_s, "s")


async def _measure(leader: Address, cluster_id: str, partitions: int) -> float:
    client = KafkaClient(client_id="bench", random=random.Random(1))
    try:
        epochs = {broker: await _register(client, leader, cluster_id, broker) for broker in BROKERS}
        for broker, epoch in epochs.items():
            await _heartbeat(client, leader, broker, epoch, want_fence=False)
        for first in range(0, partitions, PARTITIONS_PER_TOPIC):
            await _create(client, leader, f"topic-{first}", min(PARTITIONS_PER_TOPIC, partitions - first))
        began = time.perf_counter()
        answer = await _heartbeat(client, leader, BROKERS[0], epochs[BROKERS[0]], want_fence=True)
        taken_s = time.perf_counter() - began
        assert answer.is_fenced, answer
        return taken_s
    finally:
        await client.close()


async def _register(client: KafkaClient, leader: Address, cluster_id: str, broker: int) -> int:
    request = BrokerRegistrationRequest(
        broker_id=broker,
        cluster_id=cluster_id,
        incarnation_id=UUID(int=1000 + broker),
        listeners=(BrokerRegistrationRequestListener(name="PLAINTEXT", host="127.0.0.1", port=9, security_protocol=0),),
        features=tuple(
            BrokerRegistrationRequestFeature(
                name=name, min_supported_version=item.min_level, max_supported_version=item.max_level
            )
            for name, item in SUPPORTED_FEATURES.items()
        ),
        rack=None,
        log_dirs=(UUID(int=2000 + broker),),
    )
    answer = await client.send(leader, request, timeout_s=TIMEOUT_S)
    assert answer.error_code is ErrorCode.none, answer
    return answer.broker_epoch


async def _heartbeat(
    client: KafkaClient, leader: Address, broker: int, epoch: int, *, want_fence: bool
) -> BrokerHeartbeatResponse:
    request = BrokerHeartbeatRequest(
        broker_id=broker,
        broker_epoch=epoch,
        current_metadata_offset=1 << 40,
        want_fence=want_fence,
        want_shut_down=False,
    )
    answer = await client.send(leader, request, timeout_s=TIMEOUT_S)
    assert answer.error_code is ErrorCode.none, answer
    return answer


async def _create(client: KafkaClient, leader: Address, name: str, partitions: int) -> None:
    topic = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=len(BROKERS), assignments=(), configs=()
    )
    answer = await client.send(leader, CreateTopicsRequest(topics=(topic,)), timeout_s=TIMEOUT_S)
    assert answer.topics[0].error_code is ErrorCode.none, answer
