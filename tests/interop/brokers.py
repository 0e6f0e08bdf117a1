"""What the tests ask and tell brokers, beyond what a client does."""

from __future__ import annotations

import re
from pathlib import Path

from tierfetch.bench.lab.kafka import KafkaCluster
from tierfetch.bench.systems import Cluster
from tierfetch.log.core import decode_offsets, encode_offsets
from tierfetch.protocol.topics import TopicPartition
from tierfetch.tests.interop.java import kafka_tool

BROKER = 1


def set_offsets(directory: Path, name: str, partition: TopicPartition, offset: int) -> None:
    """Change one entry of a checkpoint that the stopped Java broker wrote."""
    path = directory / name
    path.write_bytes(encode_offsets(decode_offsets(path.read_bytes(), name=str(path)) | {partition: offset}))


def complaints(cluster: KafkaCluster, topic: str) -> list[str]:
    """What the Java broker's log has to say against a topic."""
    lines = cluster.log_file(BROKER).read_text(errors="replace").splitlines()
    return [line for line in lines if topic in line and re.search(r"\b(WARN|ERROR)\b|[Cc]orrupt", line)]


def list_offsets(cluster: Cluster, topic: str, timestamp: int) -> int:
    """As `kafka-get-offsets` prints it; -1 where it prints none, as while nothing is in the tier."""
    wanted = ("--topic", topic, "--time", str(timestamp))
    printed = kafka_tool("org.apache.kafka.tools.GetOffsetShell", cluster.bootstrap_servers, *wanted)
    return int(printed.strip().removeprefix(f"{topic}:0:") or -1)
