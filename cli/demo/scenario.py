"""The demo's course: produce, tier, then for each policy kill -9 and wipe the follower and time its replacement."""

from __future__ import annotations

import random
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from ...light_dataclass import dataclass
from ..local import LocalCluster, LocalQuorum, LocalSecurity, TierSettings, poll
from ..offsets import list_offset as ask_offset
from .proof import Checksum, local_start_offset, replicas_equal
from .report import PolicyResult

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

TOPIC = "demo"
PARTITIONS = 4
LEADER, FOLLOWER = 1, 2
CONTROLLERS = 3
FIRST_CONTROLLER = 101
VALUE_BYTES = 1000
SEGMENT_BYTES_MIN = 1 << 20
SEGMENTS = 32
LOCAL_SHARE = 0.8
STEP_TIMEOUT_S = 120.0
POLICIES = ("log-start", "local-log-start", "earliest-pending-upload", "bounded-local", "tier-first")
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Demo:
    """A running cluster with its topic."""

    cluster: LocalCluster
    admin: AdminClient
    bytes_per_partition: int
    login: Mapping[str, str]
    """How clients get in, by librdkafka's names."""

    @property
    def segment_bytes(self) -> int:
        return max(SEGMENT_BYTES_MIN, self.bytes_per_partition // SEGMENTS)

    def partition_directory(self, broker: int, partition: int) -> Path:
        return self.cluster.data_directory(broker) / f"{TOPIC}-{partition}"


@contextmanager
def running(base: Path, tier: TierSettings, size_bytes: int, security: LocalSecurity | None) -> Iterator[Demo]:
    from confluent_kafka.admin import AdminClient

    configs = {"log.retention.check.interval.ms": "1000"}
    with (
        LocalQuorum(base, CONTROLLERS, first_id=FIRST_CONTROLLER, security=security) as quorum,
        LocalCluster(
            base,
            (LEADER, FOLLOWER),
            tier=tier,
            configs=configs,
            controllers=quorum.bootstrap_controllers,
            security=security,
        ) as cluster,
    ):
        login = {} if security is None else security.librdkafka()
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{cluster.port(LEADER)}", "log_level": 2, **login})
        yield Demo(cluster, admin, size_bytes // PARTITIONS, login)


def create_topic(demo: Demo) -> None:
    from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

    topic = NewTopic(
        TOPIC,
        num_partitions=PARTITIONS,
        replica_assignment=[[LEADER, FOLLOWER]] * PARTITIONS,
        config={
            "remote.storage.enable": "true",
            "segment.bytes": str(demo.segment_bytes),
            "local.retention.bytes": str(int(demo.bytes_per_partition * LOCAL_SHARE)),
            "retention.ms": "-1",
        },
    )
    for future in demo.admin.create_topics([topic]).values():
        future.result(STEP_TIMEOUT_S)
    wait_isr(demo, {LEADER, FOLLOWER})


def produce(demo: Demo, size_bytes: int, progress: Progress) -> dict[int, Checksum]:
    """Produce `size_bytes` of values evenly; returns the checksum of each partition. Raises on a failed delivery."""
    from confluent_kafka import Producer

    failures: list[str] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": demo.cluster.bootstrap_servers,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "queue.buffering.max.kbytes": 65_536,
            "log_level": 2,
            **demo.login,
        }
    )
    rng = random.Random(7)
    blocks = [rng.randbytes(VALUE_BYTES - 8) for _ in range(64)]
    checksums = {partition: Checksum() for partition in range(PARTITIONS)}
    for number in range(size_bytes // VALUE_BYTES):
        value = number.to_bytes(8, "big") + blocks[number & 63]
        partition = number % PARTITIONS
        while True:
            try:
                producer.produce(TOPIC, value, partition=partition, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
        checksums[partition].add(value)
        if number % 1000 == 999:
            producer.poll(0)
            progress(1000 * VALUE_BYTES)
    left = producer.flush(STEP_TIMEOUT_S)
    if left or failures:
        raise RuntimeError(f"{left} records were not acknowledged, {len(failures)} failed: {failures[:1]}")
    return checksums


def wait_tiered(demo: Demo, progress: Progress) -> None:
    """Until everything but the active segments is in the tier and local retention has been applied."""
    done = 0
    for _ in poll(STEP_TIMEOUT_S, "closed segments to be tiered", 0.1):
        pending = ending = tiered = 0
        for partition in range(PARTITIONS):
            directory = demo.partition_directory(LEADER, partition)
            active = max(int(path.stem) for path in directory.glob("*.log"))
            pending_offset = list_offset(demo, partition, -6)
            ending += pending_offset >= active
            pending += max(0, active - pending_offset)
            tiered += pending_offset * VALUE_BYTES
        progress(tiered - done)
        done = tiered
        if ending == PARTITIONS and pending == 0 and all(trimmed(demo, partition) for partition in range(PARTITIONS)):
            return


def trimmed(demo: Demo, partition: int) -> bool:
    directory = demo.partition_directory(LEADER, partition)
    local = sum(path.stat().st_size for path in directory.glob("*.log"))
    return local <= demo.bytes_per_partition * LOCAL_SHARE + demo.segment_bytes


def list_offset(demo: Demo, partition: int, timestamp: int) -> int:
    """ListOffsets of one special timestamp, asked of the leader; -1 when unknown."""
    return ask_offset(demo.cluster.port(LEADER), TOPIC, partition, timestamp).offset


def isr_of(demo: Demo) -> list[set[int]]:
    topic = demo.admin.list_topics(TOPIC, timeout=10).topics[TOPIC]
    return [set(partition.isrs) for partition in topic.partitions.values()]


def wait_isr(demo: Demo, isr: set[int]) -> float:
    """Until every partition has exactly this ISR; returns the unix time at which that was seen."""
    for _ in poll(STEP_TIMEOUT_S, f"ISR {sorted(isr)}", 0.005):
        seen = isr_of(demo)
        if len(seen) == PARTITIONS and all(each == isr for each in seen):
            return time.time()
    raise AssertionError("unreachable: poll raises")


def replace_follower(demo: Demo, policy: str) -> PolicyResult:
    """Kill -9 the follower, wipe it once the controller has taken it out of the ISRs, start it again under `policy`,
    and measure until it is in every ISR.
    """
    demo.cluster.kill(FOLLOWER)
    wait_isr(demo, {LEADER})
    demo.cluster.wipe(FOLLOWER)
    demo.cluster.broker_configs[FOLLOWER] = {
        "follower.fetch.last.tiered.offset.enable": "true",
        "bootstrap.policy": policy,
        "bootstrap.bounded.local.bytes": str(4 * demo.segment_bytes),
    }
    started = time.time()
    demo.cluster.start(FOLLOWER)
    in_isr = wait_isr(demo, {LEADER, FOLLOWER})
    metrics = read_metrics(demo.cluster.metrics_url(FOLLOWER))
    first_fetch = min(metrics.values("tierfetch_replica_first_fetch_timestamp_seconds"), default=started)
    return PolicyResult(
        policy=policy,
        start_to_isr_s=in_isr - started,
        first_fetch_to_isr_s=in_isr - first_fetch,
        bytes_from_leader=int(sum(metrics.values("tierfetch_replica_fetch_bytes_total", source="leader"))),
        bytes_from_tier=int(sum(metrics.values("tierfetch_replica_fetch_bytes_total", source="tier"))),
        first_local_offset=min(
            local_start_offset(demo.partition_directory(FOLLOWER, partition)) for partition in range(PARTITIONS)
        ),
        identical=all(
            replicas_equal(demo.partition_directory(LEADER, partition), demo.partition_directory(FOLLOWER, partition))
            for partition in range(PARTITIONS)
        ),
    )


@dataclass(frozen=True, slots=True)
class Metrics:
    """Samples of one scrape: (name, labels, value)."""

    samples: list[tuple[str, dict[str, str], float]]

    def values(self, name: str, **labels: str) -> list[float]:
        """Values of a metric for the demo's topic."""
        wanted = {"topic": TOPIC, **labels}
        return [value for found, has, value in self.samples if found == name and wanted.items() <= has.items()]


def read_metrics(url: str) -> Metrics:
    with urllib.request.urlopen(url, timeout=10) as answer:
        text = answer.read().decode()
    return Metrics(
        [
            (sample.name, sample.labels, sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        ]
    )
