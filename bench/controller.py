"""What a controller needs for large clusters: to load an image, to decide a failover, to hold it all in memory.

No process is started and nothing is sent: these are the parts that grow with the number of partitions. Apache Kafka's
controller cannot be measured this way. Times are CPU seconds of one thread. Each size runs in a process of its own, so
that memory is that of one image.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Final
from uuid import UUID

import psutil

from tierfetch.cli.local import end_with_parent
from tierfetch.controller import SUPPORTED_FEATURES, ControllerConfig, snapshot_records
from tierfetch.controller.core.broker_heartbeat import fence
from tierfetch.controller.core.machine import ControllerCore
from tierfetch.controller.records import (
    BrokerEndpoint,
    BrokerFeature,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    decode_record,
    encode_record,
)

from .measure import Results
from .systems import TIERFETCH, System

SIZES: Final = (1_000, 3_000, 10_000, 30_000, 100_000)
BROKERS: Final = 9
REPLICATION_FACTOR: Final = 3
PARTITIONS_PER_TOPIC: Final = 100
_UNITS: Final = {"_s": "CPU s", "_mb": "MB", "_count": "partitions"}


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of one image."""

    load_s: float
    snapshot_s: float
    memory_mb: float
    failover_count: int
    failover_decision_s: float
    failover_encoding_s: float
    failover_replay_s: float


def run(system: System, base: Path, results: Results, total_mb: int, runs: int) -> None:
    """The curves; one more failover, of 10,000 partitions, has every partition on three brokers."""
    del base, total_mb
    if system is not TIERFETCH:
        return
    cases = [(size, BROKERS) for size in SIZES] + [(10_000, REPLICATION_FACTOR), (30_000, REPLICATION_FACTOR)]
    for size, brokers in cases:
        for _ in range(runs):
            with ProcessPoolExecutor(1, get_context("spawn"), end_with_parent()) as pool:
                measured = pool.submit(measure, size, brokers).result()
            for quantity, value in asdict(measured).items():
                unit = next(unit for ending, unit in _UNITS.items() if quantity.endswith(ending))
                name = quantity.rsplit("_", 1)[0].replace("_", " ")
                results.add("controller", f"{size:,} partitions on {brokers} brokers", system.name, name, value, unit)


def measure(partitions: int, brokers: int) -> Measured:
    """In this process, once: what it takes to load an image, to hold it, and to fence one of its brokers."""
    values = [encode_record(record) for record in cluster_records(partitions, brokers)]
    gc.collect()
    before = psutil.Process().memory_info().rss
    core = ControllerCore(ControllerConfig(cluster_id="bench", node_id=100), random.Random(1))
    began = time.process_time()
    for offset, value in enumerate(values):
        core.replay(decode_record(value).record, offset)
    load_s = time.process_time() - began
    gc.collect()
    memory_mb = (psutil.Process().memory_info().rss - before) / 1e6
    began = time.process_time()
    for record in snapshot_records(core.state.image):
        encode_record(record)
    snapshot_s = time.process_time() - began
    core.become_active(0)
    began = time.process_time()
    records = list(fence(core.state, 1))
    decided = time.process_time()
    encoded = [encode_record(record) for record in records]
    written = time.process_time()
    for offset, value in enumerate(encoded, len(values)):
        core.replay(decode_record(value).record, offset)
    replayed = time.process_time()
    return Measured(
        load_s=load_s,
        snapshot_s=snapshot_s,
        memory_mb=memory_mb,
        failover_count=len(records) - 1,
        failover_decision_s=decided - began,
        failover_encoding_s=written - decided,
        failover_replay_s=replayed - written,
    )


def cluster_records(partitions: int, brokers: int) -> Iterator[MetadataRecord]:
    """The log of a healthy cluster."""
    rng = random.Random(partitions)
    yield FeatureLevelRecord(name="metadata.version", feature_level=30)
    directories = {broker_id: UUID(int=rng.getrandbits(128)) for broker_id in range(1, brokers + 1)}
    for broker_id, directory in directories.items():
        yield RegisterBrokerRecord(
            broker_id=broker_id,
            incarnation_id=UUID(int=rng.getrandbits(128)),
            broker_epoch=broker_id,
            end_points=(BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9092, security_protocol=0),),
            features=tuple(
                BrokerFeature(name=name, min_supported_version=item.min_level, max_supported_version=item.max_level)
                for name, item in SUPPORTED_FEATURES.items()
            ),
            rack=None,
            fenced=False,
            log_dirs=(directory,),
        )
    for first in range(0, partitions, PARTITIONS_PER_TOPIC):
        topic_id = UUID(int=rng.getrandbits(128))
        yield TopicRecord(name=f"topic-{first}", topic_id=topic_id)
        for number in range(min(PARTITIONS_PER_TOPIC, partitions - first)):
            replicas = tuple(rng.sample(range(1, brokers + 1), REPLICATION_FACTOR))
            yield PartitionRecord(
                partition_id=number,
                topic_id=topic_id,
                replicas=replicas,
                isr=replicas,
                removing_replicas=(),
                adding_replicas=(),
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=tuple(directories[replica] for replica in replicas),
            )
