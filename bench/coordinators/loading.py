"""What a coordinator of groups spends on its log when it takes over: in one process, from batches to its state.

The log is that of the benchmark `coordinators`, not compacted: each offset was committed several times, and each member
of KIP-848 has its records of joining. No process is started and nothing is sent. Times are CPU seconds of one thread.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final
from uuid import UUID

from tierfetch.broker.coordinator.core.last_records import LastRecords
from tierfetch.broker.groups.core.consumer.records import (
    ConsumerKey,
    Current,
    GroupEpoch,
    Kind,
    MemberState,
    Subscriber,
    Target,
    TargetEpoch,
)
from tierfetch.broker.groups.core.group_state import GroupSettings
from tierfetch.broker.groups.core.records import GroupRecord, OffsetKey, OffsetValue, decode_record, is_offset_key
from tierfetch.broker.groups.core.shard import Shard
from tierfetch.protocol.records import Record, build_batch, decompressed, iter_batches
from tierfetch.protocol.records.skim import skim

from ..measure import Results
from ..systems import TIERFETCH, System

GROUPS: Final = 1_000
MEMBERS_EACH: Final = 10
PARTITIONS: Final = 100
COMMITS_EACH: Final = (1, 3, 10)
"""How often each offset is in the log."""
BATCH_RECORDS: Final = 1_000
TOPIC: Final = "coordinated"
TOPIC_ID: Final = UUID(int=0x5EED)
NOW_MS: Final = 1_700_000_000_000


def run(system: System, base: Path, results: Results, total_mb: int, runs: int) -> None:
    """Read logs of some lengths, which hold the same offsets and members."""
    del base, total_mb
    if system is not TIERFETCH:
        return
    for commits in COMMITS_EACH:
        batches = list(_batches(_log(commits)))
        case = f"{GROUPS * PARTITIONS * commits:,} commits, {GROUPS * MEMBERS_EACH * 5:,} records of members"
        gc.disable()  # A broker's collector looks at what is new alone (`broker.pauses`).
        for _ in range(runs):
            taken_s, decoded_s = _measure(batches)
            results.add("load", case, system.name, "taken in", taken_s, "CPU s")
            results.add("load", case, system.name, "decoded", decoded_s, "CPU s")
        gc.enable()


def _measure(batches: list[bytes]) -> tuple[float, float]:
    began = time.process_time()
    last = LastRecords(is_offset_key)
    for batch in batches:
        for position, header in iter_batches(batch):
            last.take(header, list(skim(decompressed(batch, position, header), header, position)))
    taken = time.process_time()
    shard = Shard(GroupSettings())
    for key, value in last.last.items():
        record = decode_record(key, value)
        assert record is not None, key
        shard.replay(record)
    ended = time.process_time()
    assert sum(map(len, shard.offsets.values())) == GROUPS * PARTITIONS, "every offset is there"
    assert sum(len(group.members) for group in shard.consumers.values()) == GROUPS * MEMBERS_EACH, "every member is"
    return taken - began, ended - taken


def _log(commits: int) -> Iterator[GroupRecord]:
    for number in range(GROUPS):
        yield from _joining(_group_id(number))
    for offset in range(commits):
        for number in range(GROUPS):
            for partition in range(PARTITIONS):
                key = OffsetKey(_group_id(number), TOPIC, partition)
                yield GroupRecord(key, OffsetValue(offset=offset, commit_timestamp_ms=NOW_MS))


def _joining(group_id: str) -> Iterator[GroupRecord]:
    for number in range(MEMBERS_EACH):
        member_id, epoch = f"{number:036}", number + 1
        owned = {TOPIC_ID: frozenset(range(number, PARTITIONS, MEMBERS_EACH))}
        subscriber = Subscriber(client_id="bench", client_host="/127.0.0.1", topics=(TOPIC,), rebalance_timeout_ms=1)
        current = Current(epoch=epoch, previous_epoch=number, state=MemberState.STABLE, assigned=owned)
        yield GroupRecord(ConsumerKey(Kind.MEMBER, group_id, member_id), subscriber)
        yield GroupRecord(ConsumerKey(Kind.GROUP, group_id), GroupEpoch(epoch, 1))
        yield GroupRecord(ConsumerKey(Kind.TARGET_MEMBER, group_id, member_id), Target(owned))
        yield GroupRecord(ConsumerKey(Kind.TARGET, group_id), TargetEpoch(epoch))
        yield GroupRecord(ConsumerKey(Kind.CURRENT, group_id, member_id), current)


def _group_id(number: int) -> str:
    return f"consumer groups {number}"


def _batches(log: Iterator[GroupRecord]) -> Iterator[bytes]:
    while some := list(islice(log, BATCH_RECORDS)):
        pairs = enumerate([record.encoded() for record in some])
        yield build_batch([Record(at, NOW_MS, key, value) for at, (key, value) in pairs], base_offset=0)
