"""`tierfetch produce`: write the lines of a file, or of standard input, to a topic."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click

from ...extras import needing
from ...light_dataclass import dataclass
from ..cluster_session import bootstrap_option
from ..options import json_option, pair
from .connection import connection, record_of, silent_logger
from .formats import as_json, split_line

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

FLUSH_S: Final = 0.2
MESSAGE_TIMED_OUT: Final = -192
"""librdkafka's code of a record that no leader took within `message.timeout.ms`, whatever the leader's error was."""
HINTS: Final[Mapping[int, str]] = {
    MESSAGE_TIMED_OUT: "; tierfetch topics describe and tierfetch brokers list show what is wrong: no leader, too small"
    " an ISR, a full disk",
}
QUEUE_MAX: Final = 10_000
"""Records on their way: a slow cluster slows the reading of the input down."""


@click.command("produce", short_help="Write lines to a topic, as records.")
@click.argument("topic")
@click.argument("source", metavar="[FILE]", type=click.File("rb"), default="-")
@click.option("-k", "--key", help="Key of all records.")
@click.option("-K", "--key-delimiter", help="What stands between key and value in each line, such as ':'.")
@click.option(
    "-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="Header of all records; repeatable."
)
@click.option("-p", "--partition", type=click.IntRange(0), help="Partition of all records; else the key decides.")
@click.option("-Z", "--null", "empty_is_null", is_flag=True, help="An empty value is null: a tombstone.")
@click.option(
    "-z",
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
    help="Codec of the batches.",
)
@click.option(
    "--acks",
    type=click.Choice(["0", "1", "all"]),
    default="all",
    show_default=True,
    help="Replicas that must have a record: all in sync, the leader (1), or none (0).",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.IntRange(1),
    default=30,
    show_default=True,
    help="Seconds until a record counts as failed.",
)
@bootstrap_option
@json_option
def produce(
    topic: str,
    source: BinaryIO,
    key: str | None,
    key_delimiter: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    empty_is_null: bool,
    compression: str,
    acks: str,
    timeout_s: int,
    bootstrap: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write each line of FILE, or of standard input, to TOPIC as a record.

    \b
      echo hello | tierfetch produce orders
      tierfetch produce orders events.txt -K : --compression zstd

    With --json, each acknowledged record is one line of JSON with its partition and offset. Exit code 1 if a record was
    not acknowledged: reading ends then, and the first error is shown, with the number of records.
    """
    if key is not None and key_delimiter is not None:
        raise click.UsageError("--key and --key-delimiter exclude each other")
    if key_delimiter == "":
        raise click.UsageError("--key-delimiter: expected at least one character")
    found = [pair(each, "--header", "trace=1") for each in headers]  # a record may have several of one name
    with needing("client"):
        from confluent_kafka import KafkaException, Producer
    settings = {"acks": acks, "compression.type": compression, "message.timeout.ms": timeout_s * 1000, "linger.ms": 5}
    settings["enable.idempotence"] = acks == "all"
    report = _Report(as_json)
    common = _Common(topic, partition, key, key_delimiter, [(name, text.encode()) for name, text in found])
    try:
        producer = Producer(connection(bootstrap) | settings, logger=silent_logger())
        _send(producer, source, common, report, empty_is_null=empty_is_null)
    except KafkaException as error:
        raise click.ClickException(f"{topic}: {error.args[0].str()}") from None
    except KeyboardInterrupt:
        sys.exit(130)
    report.finish(topic)


@dataclass(frozen=True, slots=True)
class _Common:
    """What all records share."""

    topic: str
    partition: int | None
    key: str | None
    delimiter: str | None
    headers: list[tuple[str, str | bytes | None]]


@dataclass(slots=True)
class _Report:
    """Counts what librdkafka reports of each record."""

    shows_each: bool
    acknowledged: int = 0
    failed: int = 0
    first_error: str = ""
    partitions: set[int] = field(default_factory=set)

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed += 1
            self.first_error = self.first_error or error.str() + HINTS.get(error.code(), "")
            return
        self.acknowledged += 1
        record = record_of(message)
        self.partitions.add(record.partition)
        if self.shows_each:
            sys.stdout.buffer.write(as_json(record))

    def finish(self, topic: str) -> None:
        """Say what became of the records. ClickException if one was not acknowledged."""
        if self.failed:
            raise click.ClickException(
                f"{topic}: {self.failed} of {self.failed + self.acknowledged} records were not acknowledged:"
                f" {self.first_error}"
            )
        if not self.shows_each:
            click.echo(f"{self.acknowledged} records to {topic}, partitions {sorted(self.partitions)}", err=True)


def _send(producer: Producer, lines: Iterable[bytes], common: _Common, report: _Report, *, empty_is_null: bool) -> None:
    delimiter = None if common.delimiter is None else common.delimiter.encode()
    placed: dict[str, Any] = {} if common.partition is None else {"partition": common.partition}
    for line in lines:
        if report.failed:  # what comes next would wait as long, and fail as well
            break
        key, value = split_line(line.removesuffix(b"\n"), delimiter)
        producer.produce(
            common.topic,
            None if empty_is_null and not value else value,
            common.key if key is None else key,
            headers=common.headers,
            on_delivery=report.delivered,
            **placed,
        )
        while len(producer) >= QUEUE_MAX:
            producer.poll(FLUSH_S)
        producer.poll(0)
    while producer.flush(FLUSH_S):
        pass
