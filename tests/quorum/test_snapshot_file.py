"""A snapshot's bytes: Kafka's own, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.log.core import CorruptFileError
from tierfetch.protocol.fetch.messages import SnapshotId
from tierfetch.protocol.records import Record, build_batch, iter_batches
from tierfetch.protocol.records.quorum_records import Voter, VoterEndpoint, Voters
from tierfetch.protocol.topics import uuid_from_text
from tierfetch.quorum.storage.snapshot_file import (
    BATCH_BYTES_MAX,
    BOOTSTRAP_SNAPSHOT,
    STATIC_SETUP,
    QuorumSetup,
    cut_name,
    parse_snapshot,
    parse_snapshot_name,
    part_name,
    snapshot_batches,
    snapshot_name,
)
from tierfetch.tests import samples

FORMATTED = (samples.TESTDATA / "quorum" / "standalone.checkpoint").read_bytes()
VOTERS = Voters(
    (Voter(1, uuid_from_text("8fF03T8mTdKrJ8jUAsW8zA"), (VoterEndpoint("CONTROLLER", "127.0.0.1", 19391),)),)
)
ID = SnapshotId(500, 3)


def built(records: list[bytes], setup: QuorumSetup = STATIC_SETUP) -> bytes:
    return b"".join(snapshot_batches(ID, records, setup=setup, last_append_time_ms=77, now_ms=99))


def test_names_are_kafkas() -> None:
    assert snapshot_name(ID) == "00000000000000000500-0000000003.checkpoint"
    assert parse_snapshot_name(snapshot_name(ID)) == (ID, False)
    for part in (part_name(ID), cut_name(ID, 1), "00000000000000000500-0000000003-8127.checkpoint.part"):
        assert parse_snapshot_name(part) == (ID, True)
    for name in ("bootstrap.checkpoint", "00000000000000000500.snapshot", snapshot_name(ID) + ".deleted", "x"):
        assert parse_snapshot_name(name) is None


def test_Q11_what_kafka_formats_is_read_and_written_again_byte_for_byte() -> None:
    parsed = parse_snapshot(FORMATTED, name="f")
    assert parsed.setup == QuorumSetup(1, VOTERS)
    assert parsed.batches == ()
    first, second = (header.max_timestamp for _, header in iter_batches(FORMATTED))
    again = b"".join(
        snapshot_batches(
            BOOTSTRAP_SNAPSHOT,
            (),
            setup=parsed.setup,
            last_append_time_ms=parsed.last_append_time_ms,
            now_ms=first,
        )
    )
    assert len(again) == len(FORMATTED)
    assert parse_snapshot(again, name="f") == parsed
    assert second >= first


@given(st.lists(st.binary(max_size=30), max_size=20), st.sampled_from([STATIC_SETUP, QuorumSetup(1, VOTERS)]))
def test_there_and_back(records: list[bytes], setup: QuorumSetup) -> None:
    parsed = parse_snapshot(built(records, setup), name="s")
    assert [record for batch in parsed.batches for record in batch] == records
    assert (parsed.setup, parsed.last_append_time_ms, parsed.record_count) == (setup, 77, len(records))


def test_every_batch_carries_the_epoch_and_offsets_from_0() -> None:
    data = built([b"x" * (BATCH_BYTES_MAX // 2)] * 5, QuorumSetup(1, VOTERS))
    headers = [header for _, header in iter_batches(data)]
    assert [header.partition_leader_epoch for header in headers] == [ID.epoch] * len(headers)
    assert [header.base_offset for header in headers] == [0, 3, 5, 7, 8]
    assert [header.is_control for header in headers] == [True, False, False, False, True]


@given(st.data())
def test_Q9_a_snapshot_that_was_cut_off_is_refused(data: st.DataObject) -> None:
    whole = built([b"a", b"b"])
    end = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(CorruptFileError, match=r"x\.checkpoint: .*(footer|header)"):
        parse_snapshot(whole[:end], name="x.checkpoint")


@given(st.data())
def test_Q9_a_snapshot_with_a_flipped_bit_under_a_crc_is_refused(data: st.DataObject) -> None:
    whole = bytearray(built([b"a", b"b"]))
    starts = [position for position, _ in iter_batches(whole)]
    covered = [
        at for start, end in zip(starts, [*starts[1:], len(whole)], strict=True) for at in range(start + 21, end)
    ]
    whole[data.draw(st.sampled_from(covered))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptFileError, match=r"CRC|codec|records|header|magic"):
        parse_snapshot(bytes(whole), name="x")


def test_bytes_behind_the_footer_are_refused() -> None:
    whole = built([b"a"])
    with pytest.raises(CorruptFileError, match="follows the snapshot's footer"):
        parse_snapshot(whole + built([]), name="x")
    with pytest.raises(CorruptFileError, match="3 bytes follow the last whole batch"):
        parse_snapshot(whole + b"abc", name="x")


def test_data_before_the_header_is_refused() -> None:
    data = build_batch([Record(0, 1, None, b"x")], base_offset=0)
    with pytest.raises(CorruptFileError, match=r"must begin with a snapshot header"):
        parse_snapshot(data + built([]), name="x")
