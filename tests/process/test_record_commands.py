"""`tierfetch produce` and `tierfetch consume` as processes, on a running cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.main import cli
from tierfetch.tests.process.clients import create_topic


def command(cluster: LocalCluster, *arguments: str, lines: bytes = b"", code: int = 0) -> tuple[bytes, str]:
    """Return what a command writes to its standard output, and to its standard error."""
    full = [sys.executable, "-m", "tierfetch.cli.main", *arguments, "--bootstrap", cluster.bootstrap_servers]
    ended = subprocess.run(full, input=lines, capture_output=True, timeout=90, check=False)
    assert ended.returncode == code, ended.stderr.decode()
    return ended.stdout, ended.stderr.decode()


@pytest.fixture(scope="module")
def topic(shared_cluster: LocalCluster) -> str:
    create_topic(shared_cluster.bootstrap_servers, "records", partitions=2, replicas=2)
    command(shared_cluster, "produce", "records", "-p", "1", "-K", ":", "-H", "h=1", lines=b"a:one\nb:two\nc:\n")
    return "records"


def test_what_was_produced_is_consumed(shared_cluster: LocalCluster, topic: str) -> None:
    out, _ = command(shared_cluster, "consume", topic, "-o", "earliest", "-e", "-f", r"%p %o %k=%s %h\n")
    assert out == b"1 0 a=one h=1\n1 1 b=two h=1\n1 2 c= h=1\n"


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        (("-o", "earliest", "-n", "2"), b"one\ntwo\n"),
        (("-o", "-1", "-e"), b"\n"),
        (("-o", "1", "-p", "1", "-e"), b"two\n\n"),
        (("-o", "2100-01-01", "-e"), b""),
        (("-o", "2000-01-01", "-e"), b"one\ntwo\n\n"),
        (("-p", "0", "-o", "earliest", "-e"), b""),
    ],
)
def test_where_consume_begins_and_ends(
    shared_cluster: LocalCluster, topic: str, arguments: tuple[str, ...], values: bytes
) -> None:
    assert command(shared_cluster, "consume", topic, *arguments)[0] == values


def test_json_says_where_each_record_is(shared_cluster: LocalCluster, topic: str) -> None:
    out, _ = command(shared_cluster, "consume", topic, "-o", "earliest", "-e", "--json")
    records: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    assert [(one["partition"], one["offset"], one["key"], one["value"]) for one in records] == [
        (1, 0, "a", "one"),
        (1, 1, "b", "two"),
        (1, 2, "c", ""),
    ]


def test_a_group_continues_where_it_committed(shared_cluster: LocalCluster, topic: str) -> None:
    first, _ = command(shared_cluster, "consume", topic, "-g", "records-group", "-o", "earliest", "-n", "2")
    rest, _ = command(shared_cluster, "consume", topic, "-g", "records-group", "-n", "1")
    assert (first, rest) == (b"one\ntwo\n", b"\n")


def test_tombstones_and_acknowledgements_as_json(shared_cluster: LocalCluster) -> None:
    create_topic(shared_cluster.bootstrap_servers, "tombstones", partitions=1, replicas=2)
    lines = b"a:1\na:\n"
    out, _ = command(shared_cluster, "produce", "tombstones", "-K", ":", "-Z", "--json", lines=lines)
    acknowledged = [json.loads(line) for line in out.splitlines()]
    assert [(one["partition"], one["offset"], one["value"]) for one in acknowledged] == [(0, 0, "1"), (0, 1, None)]


def test_the_summary_is_on_standard_error(shared_cluster: LocalCluster) -> None:
    create_topic(shared_cluster.bootstrap_servers, "summary", partitions=1, replicas=2)
    out, error = command(shared_cluster, "produce", "summary", "-z", "zstd", lines=b"x\n" * 20_000)
    assert (out, error) == (b"", "20000 records to summary, partitions [0]\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("produce", "no-such-topic", "--timeout", "3"), "records were not acknowledged"),
        (("consume", "no-such-topic", "-e"), "no-such-topic"),
    ],
)
def test_a_topic_that_is_not_there_is_named(
    shared_cluster: LocalCluster, arguments: tuple[str, ...], complaint: str
) -> None:
    _, error = command(shared_cluster, *arguments, lines=b"x\n", code=1)
    assert complaint in error
    assert "Traceback" not in error


def test_a_reader_that_goes_ends_consume(shared_cluster: LocalCluster, topic: str) -> None:
    full = [sys.executable, "-m", "tierfetch.cli.main", "consume", topic, "-o", "earliest"]
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [*full, "-e", "--bootstrap", shared_cluster.bootstrap_servers],
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=90,
        check=False,
    )
    os.close(writing)
    assert ended.stderr == b""


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("consume", "t", "-o", "+5"), "expected -N"),
        (("consume", "t", "-o", "soon"), "expected earliest"),
        (("consume", "t", "-f", "%x"), "expected one of %t"),
        (("consume", "t", "-g", "g", "-p", "0"), "exclude each other"),
        (("produce", "t", "-k", "a", "-K", ":"), "exclude each other"),
    ],
)
def test_wrong_usage_is_explained(shared_cluster: LocalCluster, arguments: tuple[str, ...], complaint: str) -> None:
    assert complaint in command(shared_cluster, *arguments, code=2)[1]


@pytest.mark.parametrize("command", ["produce", "consume"])
def test_an_address_where_nobody_listens_is_named_at_once(command: str) -> None:
    ended = CliRunner().invoke(cli, [command, "t", "--bootstrap", "127.0.0.1:1"], input="x\n")
    assert (ended.exit_code, ended.output) == (1, "Error: 127.0.0.1:1 cannot be reached: it refuses connections\n")
