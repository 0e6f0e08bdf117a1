"""How the simulation reads: what a consumer gives out of a fetch, and how far the files of a crashed machine reach."""

from __future__ import annotations

from pathlib import Path

from tierfetch.protocol.fetch.messages import AbortedTransaction
from tierfetch.protocol.records import Record, build_batch
from tierfetch.protocol.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from tierfetch.sim.judges.broker_losses import surviving_end
from tierfetch.sim.machine.filesystem import SimFilesystem
from tierfetch.sim.scenarios.client import Fetched
from tierfetch.sim.scenarios.workload import decode_value, encode_value, records_of

DIRECTORY = Path("/data/t-0")


def batch(base: int, *values: int, producer_id: int = -1) -> bytes:
    records = [Record(base + index, 1, None, encode_value(value, 20)) for index, value in enumerate(values)]
    is_transactional = producer_id >= 0
    return build_batch(
        records,
        base_offset=base,
        producer_id=producer_id,
        producer_epoch=0 if is_transactional else -1,
        base_sequence=base if is_transactional else -1,
        is_transactional=is_transactional,
    )


def marker(base: int, kind: ControlType, producer_id: int) -> bytes:
    return build_end_transaction_batch(
        EndTransactionMarker(kind, 0), base_offset=base, timestamp_ms=1, producer_id=producer_id, producer_epoch=0
    )


def read(data: bytes, position: int, *aborted: AbortedTransaction, committed: bool = True):
    return records_of(Fetched(data, 99, 99, 0, aborted), position, is_read_committed=committed)


def test_a_value_survives_its_record() -> None:
    assert decode_value(encode_value(2**40, 8)) == decode_value(encode_value(2**40, 300)) == 2**40


def test_records_begin_at_the_position_asked_for() -> None:
    assert read(batch(4, 1, 2, 3), 5) == ([(5, 2), (6, 3)], 7)
    assert read(b"", 5) == ([], 5)


def test_aborted_records_are_left_out_up_to_their_marker() -> None:
    data = (
        batch(0, 1, producer_id=7)
        + batch(1, 2)
        + marker(2, ControlType.ABORT, 7)
        + batch(3, 3, producer_id=7)
        + marker(4, ControlType.COMMIT, 7)
    )
    assert read(data, 0, AbortedTransaction(7, 0)) == ([(1, 2), (3, 3)], 5)
    assert read(data, 0, AbortedTransaction(7, 0), committed=False) == ([(0, 1), (1, 2), (3, 3)], 5)


def files_with(**contents: bytes) -> SimFilesystem:
    """`_3=...` is the segment with base offset 3."""
    files = SimFilesystem()
    files.make_directory(DIRECTORY)
    for name, data in contents.items():
        files.replace(DIRECTORY / f"{int(name[1:]):020d}.log", data, sync=True)
    return files


def test_surviving_end_of_whole_segments() -> None:
    assert surviving_end(SimFilesystem(), DIRECTORY) == 0
    assert surviving_end(files_with(_3=b""), DIRECTORY) == 3
    assert surviving_end(files_with(_3=batch(3, 1, 2), _5=batch(5, 3)), DIRECTORY) == 6


def test_surviving_end_stops_at_what_is_torn_or_missing() -> None:
    torn = batch(3, 1, 2) + batch(5, 3)[:-1]
    assert surviving_end(files_with(_3=torn, _6=batch(6, 4)), DIRECTORY) == 5
    assert surviving_end(files_with(_3=batch(3, 1), _5=batch(5, 3)), DIRECTORY) == 4
    assert surviving_end(files_with(_3=batch(3, 1) + bytes(100)), DIRECTORY) == 4
