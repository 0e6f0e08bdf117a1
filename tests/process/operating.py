"""What an operator does to a running cluster, and what must hold of it afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import confluent_kafka

from tierfetch.cli.cluster_session import Admin
from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.cli.offsets import list_offset
from tierfetch.cli.tier.report import Listing
from tierfetch.fetcher.core.leader_offsets import EARLIEST_LOCAL_TIMESTAMP, EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.net.client import Address
from tierfetch.tests.messages import request_of
from tierfetch.tests.process import connecting
from tierfetch.tests.process.looks import leader_of, log_bytes, log_end, registration, registrations

TIMEOUT_S = 60.0


def wait_in_sync(cluster: LocalCluster, topic: str) -> None:
    for _ in poll(TIMEOUT_S, f"{topic} to have both replicas in sync"):
        if set(registration(cluster, topic).isr) == {1, 2}:
            return


def wait_all_in_sync(cluster: LocalCluster) -> None:
    """Of every topic, the one with the remote log metadata too."""
    for _ in poll(TIMEOUT_S, "all replicas to be in sync"):
        if all(set(entry.isr) == set(entry.replicas) for entry in registrations(cluster)):
            return


def wait_local_start(cluster: LocalCluster, topic: str, offset: int) -> None:
    """Until what lies below is in the tier alone."""
    for _ in poll(TIMEOUT_S, f"{topic} to begin at {offset} or later locally"):
        if list_offset(cluster.port(leader_of(cluster, topic)), topic, 0, EARLIEST_LOCAL_TIMESTAMP).offset >= offset:
            return


def check_same_logs(cluster: LocalCluster, topic: str) -> None:
    """What both replicas hold is the same, byte for byte, whatever their segment borders."""
    leader = leader_of(cluster, topic)
    wait_leads(cluster, topic, leader)
    for _ in poll(TIMEOUT_S, f"both replicas of {topic} to reach the same end, all of it committed"):
        end = list_offset(cluster.port(leader), topic, 0, LATEST_TIMESTAMP).offset  # rises as the follower catches up
        with contextlib.suppress(FileNotFoundError):  # local retention goes on
            logs = [log_bytes(cluster, broker, topic) for broker in (1, 2)]
            if [log_end(log) for log in logs] == [end, end]:
                break
    contents = [b"".join(log.values()) for log in logs]
    shorter, longer = sorted(contents, key=len)
    assert longer.endswith(shorter)


async def _ask(cluster: LocalCluster, api: ApiKey, body: dict[str, Any]) -> Any:
    async with Admin([Address("127.0.0.1", cluster.port(broker)) for broker in cluster.broker_ids]) as admin:
        return await admin.send(request_of(api, body))


def ask(cluster: LocalCluster, api: ApiKey, body: dict[str, Any]) -> Any:
    """Any broker that answers."""
    return asyncio.run(_ask(cluster, api, body))


def freeze(cluster: LocalCluster, broker: int) -> None:
    """As if the machine slept; its session ends soon."""
    cluster.process(broker).send_signal(signal.SIGSTOP)


def elect(cluster: LocalCluster, topic: str, leader: int) -> None:
    """Make a replica that is in sync the preferred one, and have that elected. One that has just joined the ISR is
    refused until its broker has reported whether it is thin.
    """
    replicas = registration(cluster, topic).replicas
    order = [leader, *(replica for replica in replicas if replica != leader)]
    moved = {"name": topic, "partitions": [{"partition_index": 0, "replicas": order}]}
    answer = ask(cluster, ApiKey.ALTER_PARTITION_REASSIGNMENTS, {"timeout_ms": 10_000, "topics": [moved]})
    assert answer.responses[0].partitions[0].error_code is ErrorCode.none, answer
    for _ in poll(TIMEOUT_S, f"broker {leader} to be electable as the leader of {topic}"):
        answer = ask(
            cluster,
            ApiKey.ELECT_LEADERS,
            {"election_type": 0, "topic_partitions": [{"topic": topic, "partitions": [0]}], "timeout_ms": 10_000},
        )
        (result,) = answer.replica_election_results[0].partition_result if answer.replica_election_results else (None,)
        if result is None or result.error_code in (ErrorCode.none, ErrorCode.election_not_needed):
            break
        assert result.error_code is ErrorCode.preferred_leader_not_available, answer
    wait_led(cluster, topic, leader)


def wait_led(cluster: LocalCluster, topic: str, leader: int) -> None:
    """Until the controller has decided so."""
    for _ in poll(TIMEOUT_S, lambda: f"{topic} to be led by {leader}, not {registration(cluster, topic)}"):
        if leader_of(cluster, topic) == leader:
            return


def delete_topic(cluster: LocalCluster, topic: str) -> None:
    body = {"topics": [{"name": topic, "topic_id": None}], "timeout_ms": 10_000}
    (answer,) = ask(cluster, ApiKey.DELETE_TOPICS, body).responses
    assert answer.error_code is ErrorCode.none, answer


def run_tier(cluster: LocalCluster, command: str, topic: str, *options: str) -> subprocess.CompletedProcess[str]:
    """`tierfetch tier <command> --json` of one topic."""
    config = str(cluster.base / "broker-1.properties")
    line = [sys.executable, "-m", "tierfetch.cli.main", "tier", command, "--config", config, "--topic", topic, "--json"]
    return subprocess.run([*line, *options], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def check_tier(cluster: LocalCluster, topic: str) -> None:
    """Sound to the last byte, from offset 0 on without a gap. A segment may be there twice: the old leader of an
    epoch that has just ended may finish what the new one begins.
    """
    found = run_tier(cluster, "verify", topic, "--deep")
    assert found.returncode == 0, found.stdout + found.stderr
    (partition,) = Listing.model_validate_json(run_tier(cluster, "ls", topic).stdout).partitions
    finished = [segment for segment in partition.segments if segment.state == "COPY_SEGMENT_FINISHED"]
    assert finished
    ranges = sorted({(segment.start_offset, segment.end_offset + 1) for segment in finished})
    assert [start for start, _ in ranges] == [0, *(end for _, end in ranges[:-1])]


def alter_topic(cluster: LocalCluster, topic: str, configs: Mapping[str, str | None]) -> None:
    operations = [
        {"name": name, "config_operation": int(value is None), "value": value} for name, value in configs.items()
    ]
    resource = {"resource_type": 2, "resource_name": topic, "configs": operations}
    (answer,) = ask(
        cluster, ApiKey.INCREMENTAL_ALTER_CONFIGS, {"resources": [resource], "validate_only": False}
    ).responses
    assert answer.error_code is ErrorCode.none, answer


def wait_leads(cluster: LocalCluster, topic: str, broker: int) -> None:
    """Until the broker itself knows, and has committed something of its epoch."""
    for _ in poll(TIMEOUT_S, f"broker {broker} to lead {topic}"):
        with contextlib.suppress(KafkaError, OSError):
            if list_offset(cluster.port(broker), topic, 0, LATEST_TIMESTAMP).offset >= 0:
                return


def wait_log_start(cluster: LocalCluster, topic: str, offset: int) -> int:
    """The log start, once it is at least `offset` and has come to rest."""
    starts = [-1]
    for _ in poll(TIMEOUT_S, f"{topic} to begin at {offset} or later", 1.5):
        starts.append(list_offset(cluster.port(leader_of(cluster, topic)), topic, 0, EARLIEST_TIMESTAMP).offset)
        if starts[-1] >= offset and starts[-1] == starts[-2]:
            break
    return starts[-1]


def wait_tier_empty(cluster: LocalCluster, topic: str) -> None:
    for _ in poll(TIMEOUT_S, f"the tier to hold nothing of {topic}"):
        if not list((cluster.base / "tier").glob(f"kafka-tiered-storage/{topic}-0-*/*")):
            return


def consumed_from(cluster: LocalCluster, topic: str, offset: int, count: int) -> list[bytes]:
    """Values of partition 0 from an offset on, by a real client."""
    consumer = confluent_kafka.Consumer(
        {
            **connecting.librdkafka(cluster.bootstrap_servers),
            "group.id": "test",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, offset)])
    values: list[bytes] = []
    with contextlib.closing(consumer):
        while len(values) < count:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"nothing for {TIMEOUT_S} s after {len(values)} of {count}"
            assert message.error() is None, message.error()
            values.append(message.value() or b"")
    return values
