"""Kafka's format of `__transaction_state`: TransactionLogKey and TransactionLogValue, byte for byte."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.broker.transactions.core.records import (
    TransactionRecord,
    decode_record,
    encode_key,
    encode_value,
)
from tierfetch.broker.transactions.core.states import TransactionState, TransactionValue
from tierfetch.protocol import CorruptRecordError, TopicPartition

VALUE = TransactionValue(
    producer_id=1001,
    producer_epoch=3,
    timeout_ms=60_000,
    state=TransactionState.ONGOING,
    partitions=frozenset({TopicPartition("t", 1), TopicPartition("t", 0)}),
    last_update_ms=9,
    start_ms=7,
)
HEAD = "00000000000003e900030000ea6001"
TAIL = "00000000000000090000000000000007"


def test_version_0() -> None:
    expected = "0000" + HEAD + "00000001000174000000020000000000000001" + TAIL
    assert encode_value(VALUE, 0).hex() == expected
    assert encode_key("tx").hex() == "000000027478"


def test_version_1_has_tags() -> None:
    value = replace(VALUE, previous_producer_id=5, next_producer_id=6, transaction_version=2)
    tags = "03000800000000000000050108000000000000000602020002"
    expected = "0001" + HEAD + "02027403000000000000000100" + TAIL + tags
    assert encode_value(value, 1).hex() == expected
    assert encode_value(VALUE, 1).hex().endswith(TAIL + "00"), "defaults are left out"


@pytest.mark.parametrize(("version", "null"), [(0, "ffffffff"), (1, "00")])
def test_an_empty_transaction_has_no_partitions(version: int, null: str) -> None:
    value = replace(VALUE, state=TransactionState.EMPTY, partitions=frozenset())
    assert null + TAIL in encode_value(value, version).hex()
    assert decode_record(encode_key("tx"), encode_value(value, version)) == TransactionRecord("tx", value)


def test_an_end_that_bumps_epochs_never_takes_the_old_format() -> None:
    record = TransactionRecord("tx", replace(VALUE, transaction_version=2, next_producer_id=6), version=0)
    assert decode_record(*record.encoded()) == replace(record, version=1)
    assert TransactionRecord("tx", VALUE, version=0).encoded()[1] == encode_value(VALUE, 0)


def test_a_tombstone() -> None:
    assert TransactionRecord("tx", None).encoded() == (encode_key("tx"), None)
    assert decode_record(encode_key("tx"), None) == TransactionRecord("tx", None)


def test_keys_of_another_version_are_passed_over() -> None:
    assert decode_record(bytes.fromhex("000100027478"), b"anything") is None


@pytest.mark.parametrize(
    "value",
    [
        b"",
        bytes.fromhex("0002") + encode_value(VALUE, 1)[2:],
        encode_value(VALUE, 1)[:-1],
        encode_value(replace(VALUE, state=TransactionState.DEAD), 1),
        encode_value(replace(VALUE, state=TransactionState.PREPARE_EPOCH_FENCE), 1),
        encode_value(VALUE, 1).replace(b"\x01\x02\x02t", b"\x09\x02\x02t"),
    ],
)
def test_what_cannot_be_read_is_corrupt(value: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        decode_record(encode_key("tx"), value)


STATES = [state for state in TransactionState if state.label not in ("Dead", "PrepareEpochFence")]
PARTITIONS = st.frozensets(st.builds(TopicPartition, st.text(min_size=1, max_size=5), st.integers(0, 2**31 - 1)))


@given(st.sampled_from(STATES), PARTITIONS, st.integers(-1, 2**62), st.integers(0, 32767), st.sampled_from((0, 1, 2)))
def test_what_is_written_can_be_read(
    state: TransactionState, partitions: frozenset[TopicPartition], other_id: int, epoch: int, version: int
) -> None:
    is_open = state.label in ("Ongoing", "PrepareCommit", "PrepareAbort")
    value = replace(
        VALUE,
        state=state,
        partitions=partitions if is_open else frozenset(),
        producer_epoch=epoch,
        next_producer_id=other_id,
        previous_producer_id=other_id,
        transaction_version=version,
    )
    assert decode_record(encode_key("tx"), encode_value(value, 1)) == TransactionRecord("tx", value)


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_corrupt(data: bytes) -> None:
    for key, value in ((data, b""), (encode_key("tx"), data)):
        try:
            decode_record(key, value)
        except CorruptRecordError:
            continue
