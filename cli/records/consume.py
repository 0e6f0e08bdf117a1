"""`tierfetch consume`: print the records of a topic."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO

import click

from ...extras import needing
from ...light_dataclass import dataclass
from ..cluster_session import bootstrap_option
from ..groups.reset import Anchor, Target, parse
from ..options import json_option
from .connection import CLIENT_ID, connection, record_of, silent_logger
from .formats import Formatter, Record, as_json, parse_format

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition

POLL_S = 0.2
TIMEOUT_S = 30.0


@click.command("consume", short_help="Print the records of a topic.")
@click.argument("topic")
@click.option("-p", "--partition", "numbers", type=click.IntRange(0), multiple=True, help="Only this one; repeatable.")
@click.option("-o", "--from", "start", default="latest", show_default=True, metavar="WHERE", help="See above.")
@click.option("-n", "--count", type=click.IntRange(1), help="End after so many records.")
@click.option("-e", "--exit", "exits", is_flag=True, help="End once every partition is read to its end.")
@click.option("-g", "--group", help="Read as a member of this group: continue where it committed, and commit.")
@click.option("-f", "--format", "template", default=r"%s\n", show_default=True, help="Text of a record; see above.")
@bootstrap_option
@json_option
def consume(
    topic: str,
    numbers: tuple[int, ...],
    start: str,
    count: int | None,
    exits: bool,
    group: str | None,
    template: str,
    bootstrap: tuple[str, ...],
    as_json: bool,
) -> None:
    """Print the records of TOPIC, and wait for more until Ctrl-C, --count or --exit.

    \b
      tierfetch consume orders --from earliest --exit
      tierfetch consume orders -o -10 -f '%p %o %T %k: %s\\n'
      tierfetch consume orders -g billing --json

    \b
    --from earliest | latest       the ends of each partition, in the tier or on disk
    --from 1200                    this offset
    --from -10                     the last ten records of each partition
    --from 2026-01-31T12:00:00Z    the first record of this time or later

    \b
    --format, as kcat has it: %t topic, %p partition, %o offset, %k key,
    %s value, %T timestamp in ms, %h headers, %K and %S sizes of key and value.
    """
    try:
        target, formatter = parse(start), _formatter(template, as_json)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if target.anchor is Anchor.COMMITTED and target.number > 0:
        raise click.UsageError("--from +N: expected -N, which counts back from the end")
    if group is not None and numbers:
        raise click.UsageError("--partition and --group exclude each other: a group's coordinator assigns partitions")
    with needing("client"):
        from confluent_kafka import KafkaException
    plan = _Plan(topic, numbers, target, group, exits)
    try:
        with closing(_messages(plan, connection(bootstrap))) as messages:
            print_records(messages, formatter, count, sys.stdout.buffer)
    except KafkaException as error:
        raise click.ClickException(f"{topic}: {error.args[0].str()}") from None
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output has closed it, as `head` does. Python would complain again when it flushes at its
        # end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@dataclass(frozen=True, slots=True)
class _Plan:
    """What to read."""

    topic: str
    numbers: tuple[int, ...]
    start: Target
    group: str | None
    exits: bool


def _formatter(template: str, as_json_lines: bool) -> Formatter:
    return as_json if as_json_lines else parse_format(template)


def print_records(records: Iterable[Record], formatter: Formatter, count: int | None, out: BinaryIO) -> None:
    """Print up to `count` records, each at once: another program may wait for it."""
    for record in islice(records, count):
        out.write(formatter(record))
        out.flush()


def _messages(plan: _Plan, properties: dict[str, object]) -> Generator[Record, None, None]:
    """Yield the records, without an end unless the plan exits. KafkaException."""
    from confluent_kafka import Consumer

    settings = {
        "group.id": plan.group or CLIENT_ID,
        "enable.auto.commit": plan.group is not None,
        "auto.offset.reset": "earliest" if plan.start.anchor is Anchor.EARLIEST else "latest",
        "enable.partition.eof": plan.exits,
    }
    consumer = Consumer(properties | settings, logger=silent_logger())
    try:
        wanted = _partitions(consumer, plan)
        if plan.group is not None:
            consumer.subscribe([plan.topic])
        else:
            consumer.assign(starts(consumer, plan.topic, wanted, plan.start))
        yield from _polled(consumer, set(wanted))
    finally:
        consumer.close()


def _partitions(consumer: Consumer, plan: _Plan) -> list[int]:
    """Return the numbers of the partitions to read. KafkaException, ClickException if there is no such one."""
    metadata = consumer.list_topics(plan.topic, timeout=TIMEOUT_S).topics[plan.topic]
    if metadata.error is not None:
        raise click.ClickException(f"topic {plan.topic}: {metadata.error.str()}")
    there = sorted(metadata.partitions)
    if missing := sorted(set(plan.numbers) - set(there)):
        raise click.UsageError(f"{plan.topic} has {len(there)} partitions, and no {missing[0]}")
    return sorted(set(plan.numbers)) or there


def _polled(consumer: Consumer, unread: set[int]) -> Iterator[Record]:
    """Yield records until every partition has been read to its end, which only `enable.partition.eof` reports."""
    from confluent_kafka import KafkaError, KafkaException

    while unread:
        message = consumer.poll(POLL_S)
        if message is None:
            continue
        error = message.error()
        if error is None:
            yield record_of(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            unread.discard(message.partition())
        elif not error.retriable():
            raise KafkaException(error)


def starts(consumer: Consumer, topic: str, partitions: Sequence[int], start: Target) -> list[TopicPartition]:
    """Return the partitions with the offsets at which to begin. A negative number counts back from the end.
    KafkaException.
    """
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

    if start.anchor is Anchor.TIME:
        asked = [TopicPartition(topic, partition, start.number) for partition in partitions]
        found: list[TopicPartition] = consumer.offsets_for_times(asked, timeout=TIMEOUT_S)
        return [TopicPartition(topic, one.partition, OFFSET_END if one.offset < 0 else one.offset) for one in found]
    if start.anchor is Anchor.COMMITTED:
        return [TopicPartition(topic, one, _before_end(consumer, topic, one, -start.number)) for one in partitions]
    offset = {Anchor.EARLIEST: OFFSET_BEGINNING, Anchor.LATEST: OFFSET_END}.get(start.anchor, start.number)
    return [TopicPartition(topic, partition, offset) for partition in partitions]


def _before_end(consumer: Consumer, topic: str, partition: int, count: int) -> int:
    from confluent_kafka import TopicPartition

    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=TIMEOUT_S)
    return max(int(low), int(high) - count)
