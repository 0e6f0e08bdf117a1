"""The same raw requests to Apache Kafka and to tierfetch, good, bad and hostile ones: the answers are the same."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tierfetch.bench.lab.kafka import KafkaCluster
from tierfetch.cli.local.cluster import LocalCluster, TierSettings
from tierfetch.cli.local.processes import poll
from tierfetch.protocol.records import Record, TimestampType, build_batch
from tierfetch.protocol.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from tierfetch.tests.interop.clients import TIMEOUT_S, create_topic
from tierfetch.tests.interop.conversation import Conversation, spoiled

NOW_MS = int(time.time() * 1000)
HOUR_MS = 3_600_000
TIMESTAMPS = {"now": NOW_MS, "soon": NOW_MS + 1, "never": NOW_MS + 10**9}

KNOWN_DIFFERENCES = {
    "produce: negative base offset": "CORRUPT_MESSAGE: our header check comes first",
    "produce: fewer records than said": "CORRUPT_MESSAGE: our header check comes first",
    "produce: no offset at all": "CORRUPT_MESSAGE: our header check comes first",
    "produce: unknown codec": "CORRUPT_MESSAGE where Kafka fails with UNKNOWN_SERVER_ERROR",
    "produce: log append time": "refused; Kafka takes the bit away",
    "produce: the same again": "Kafka answers a duplicate with a log append time, also where records keep theirs",
    "fetch: partition limit -1": "Kafka fails with UNKNOWN_SERVER_ERROR",
    **{
        f"list offsets after a deletion: -3 in version {version}, isolation {isolation}": "Kafka names a deleted record"
        for version in (7, 8, 9, 10, 11)
        for isolation in (0, 1)
    },
    **{
        f"fetch: {name}": "we tell high watermark and log start with OFFSET_OUT_OF_RANGE"
        for name in ("from 100", "from -1", "from -5", "unknown epoch", "below the start", "below, with an epoch")
    },
}

Answers = AsyncIterator[tuple[str, Any]]


@pytest.fixture(scope="module")
def tierfetch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    base = tmp_path_factory.mktemp("tierfetch")
    with LocalCluster(base, (1,), tier=TierSettings("local", {"dir": str(base / "tier")})) as cluster:
        yield cluster


def batch(count: int = 1, *, at: int = NOW_MS, **fields: Any) -> bytes:
    records = [Record(number, at + number, b"k", b"v") for number in range(count)]
    return build_batch(records, base_offset=0, **fields)


def idempotent(base_sequence: int, *, count: int = 1, producer_id: int = 50, producer_epoch: int = 1) -> bytes:
    return batch(count, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence)


MARKER = build_end_transaction_batch(
    EndTransactionMarker(ControlType.COMMIT, 0), base_offset=0, timestamp_ms=NOW_MS, producer_id=5, producer_epoch=0
)
PRODUCED = {
    "three records": batch(3),
    "nothing": b"",
    "garbage": b"x" * 100,
    "cut off": batch()[:-1],
    "cut off header": batch()[:40],
    "two batches": batch() + batch(),
    "wrong checksum": spoiled(batch(), {(17, ">I"): 5}, recount=False),
    "magic 1": spoiled(batch(), {(16, ">b"): 1}),
    "magic 3": spoiled(batch(), {(16, ">b"): 3}),
    "fewer records than said": spoiled(batch(3), {(57, ">i"): 4}),
    "more records than said": spoiled(batch(3), {(57, ">i"): 2}),
    "no records": spoiled(batch(), {(57, ">i"): 0}),
    "no offset at all": spoiled(batch(), {(23, ">i"): -1, (57, ">i"): 0}),
    "gap of offsets": spoiled(batch(3), {(23, ">i"): 7}),
    "unknown codec": spoiled(batch(), {(21, ">h"): 6}),
    "base offset 77": spoiled(batch(), {(0, ">q"): 77}, recount=False),
    "negative base offset": spoiled(batch(), {(0, ">q"): -5}, recount=False),
    "delete horizon": spoiled(batch(), {(21, ">h"): 0x40}),
    "control batch": batch(is_control=True),
    "marker of a client": MARKER,
    "transaction without producer": batch(is_transactional=True),
    "producer without sequence": batch(producer_id=1, producer_epoch=0),
    "producer without epoch": batch(producer_id=1, base_sequence=0),
    "too far in the future": batch(at=NOW_MS + 2 * HOUR_MS),
    "long ago": batch(at=1000),
    "no timestamp": batch(at=-1),
    "too large": build_batch([Record(0, NOW_MS, value=b"x" * 1_100_000)], base_offset=0),
    "first sequence": idempotent(0),
    "the same again": idempotent(0),
    "a sequence too high": idempotent(2),
    "the next sequence": idempotent(1, count=3),
    "a part of it again": idempotent(2),
    "an older epoch": idempotent(4, producer_epoch=0),
    "a newer epoch with a sequence": idempotent(5, producer_epoch=2),
    "a newer epoch": idempotent(0, producer_epoch=2),
    "an unknown producer in the middle": idempotent(9, producer_id=51),
    "the last sequence": idempotent(2**31 - 1, producer_id=52),
    "the first after the last": idempotent(0, producer_id=52),
    "sequences that wrap": idempotent(2**31 - 2, count=4, producer_id=53),
    "the first after a wrap": idempotent(2, producer_id=53),
}
FETCHED: dict[str, dict[str, int]] = {
    **{f"from {offset}": {"fetch_offset": offset} for offset in (0, 1, 2, 5, 100, -1, -5)},
    "committed only": {"isolation": 1},
    "no such partition": {"partition": 9},
    "stale leader epoch": {"current_leader_epoch": 0},
    "leader epoch to come": {"current_leader_epoch": 99},
    "known epoch": {"fetch_offset": 2, "last_fetched_epoch": 0},
    "unknown epoch": {"fetch_offset": 2, "last_fetched_epoch": 9},
    "beyond the end of an epoch": {"fetch_offset": 500, "last_fetched_epoch": 0},
    **{f"partition limit {limit}": {"partition_max_bytes": limit} for limit in (1, 0, -1, 100)},
    "version 4": {"version": 4},
}


async def produced(talk: Conversation) -> Answers:
    for name, records in PRODUCED.items():
        yield name, await talk.produce(records)
    for acks in (2, 1):
        yield f"acks {acks}", await talk.produce(batch(), acks=acks)
    for partition in (7, -1):
        yield f"partition {partition}", await talk.produce(batch(), partition=partition)


async def fetched(talk: Conversation) -> Answers:
    for name, wanted in FETCHED.items():
        yield name, await talk.fetch(**wanted)


async def offsets_listed(talk: Conversation) -> Answers:
    for version in (1, 4, 6, 7, 8, 9, 10, 11):
        for name, timestamp in {str(special): special for special in range(-7, 1)}.items() | TIMESTAMPS.items():
            for isolation in (0, 1) if version > 1 else (0,):
                found = await talk.list_offsets(timestamp, version=version, isolation=isolation)
                yield f"{name} in version {version}, isolation {isolation}", found
    for epoch in (0, 99):
        yield f"leader epoch {epoch}", await talk.list_offsets(-1, version=9, current_leader_epoch=epoch)


async def epochs_ended(talk: Conversation) -> Answers:
    for epoch in (-2, -1, 0, 1, 99):
        yield str(epoch), await talk.epoch_end(epoch)
    yield "leader epoch to come", await talk.epoch_end(0, current_leader_epoch=99)
    yield "no such partition", await talk.epoch_end(0, partition=9)


async def markers_written(talk: Conversation) -> Answers:
    begin = {"producer_id": 60, "producer_epoch": 3, "transaction_result": False, "coordinator_epoch": 5}
    for name, change in {
        "an unknown producer": {},
        "the same again": {},
        "an older coordinator": {"coordinator_epoch": 4},
        "an older epoch": {"producer_epoch": 2},
        "a commit": {"transaction_result": True, "producer_epoch": 4},
    }.items():
        yield name, await talk.write_marker(**begin | change)


async def records_deleted(talk: Conversation) -> Answers:
    yield "no such partition", await talk.delete_records(0, partition=9)
    for offset in (-2, 0, 2, 1000, -1):
        yield str(offset), await talk.delete_records(offset)


async def fetched_again(talk: Conversation) -> Answers:
    yield "below the start", await talk.fetch(fetch_offset=3)
    yield "below, with an epoch", await talk.fetch(fetch_offset=3, last_fetched_epoch=0)


async def produced_last(talk: Conversation) -> Answers:
    """Taken by one and refused by the other, so that offsets differ from here on."""
    yield "log append time", await talk.produce(batch(timestamp_type=TimestampType.LOG_APPEND_TIME))


CHAPTERS = (
    ("produce", produced),
    ("fetch", fetched),
    ("list offsets", offsets_listed),
    ("epoch end", epochs_ended),
    ("marker", markers_written),
    ("delete records", records_deleted),
    ("fetch", fetched_again),
    ("list offsets after a deletion", offsets_listed),
    ("produce", produced_last),
)


async def answers_of(port: int, topic: str) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    async with Conversation(port, topic) as talk:
        for _ in poll(TIMEOUT_S, f"{topic} to have a leader"):
            if (await talk.list_offsets(-2, version=1))[0] == "none":
                break
        for chapter, asked in CHAPTERS:
            answers |= {f"{chapter}: {name}": answer async for name, answer in asked(talk)}
    return answers


async def test_the_same_requests_have_the_same_answers(cluster: KafkaCluster, tierfetch: LocalCluster) -> None:
    answers = []
    for each in (cluster, tierfetch):
        create_topic(each.bootstrap_servers, "same", {"retention.ms": "-1"})
        answers.append(await answers_of(each.port(1), "same"))
    theirs, ours = answers
    assert list(ours) == list(theirs)
    assert len(ours) > 300
    different = {name: (theirs[name], ours[name]) for name in ours if theirs[name] != ours[name]}
    assert different.keys() == KNOWN_DIFFERENCES.keys(), different
