"""Metadata records against Apache Kafka's own log, its own printing, and round trips of every type and version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, get_args, get_origin
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierfetch.controller.records import (
    BrokerRegistrationChangeRecord,
    MetadataRecordError,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    UserScramCredentialRecord,
    VersionedRecord,
    decode_record,
    encode_record,
    record_row,
)
from tierfetch.controller.records.codec import oldest_version
from tierfetch.controller.records.schema import absent_value, record_types
from tierfetch.protocol.records import iter_batches, iter_records
from tierfetch.tests.samples import CONTROLLER, DUMPS

LOG = CONTROLLER / "__cluster_metadata-0" / "00000000000000000000.log"
BOOTSTRAP = CONTROLLER / "bootstrap.checkpoint"


def kafka_values(path: Any) -> Iterator[bytes]:
    data = path.read_bytes()
    for position, header in iter_batches(data):
        if not header.is_control:
            for record in iter_records(data, position, header):
                assert record.value is not None
                yield record.value


@pytest.mark.parametrize("path", [LOG, BOOTSTRAP], ids=lambda path: path.name)
def test_every_record_of_kafkas_own_log_is_written_back_byte_for_byte(path: Any) -> None:
    count = 0
    for value in kafka_values(path):
        record, version = decode_record(value)
        assert encode_record(record, version) == value
        assert oldest_version(record) <= version
        assert decode_record(encode_record(record)).record == record
        count += 1
    assert count == (662 if path is LOG else 6)


def test_rows_are_those_of_kafka_dump_log() -> None:
    prefix = "| payload: "
    lines = (DUMPS / "cluster_metadata.txt").read_text().splitlines()
    printed = [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]
    assert [json.dumps(record_row(value), separators=(",", ":")) for value in kafka_values(LOG)] == printed


INTEGERS = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint16": st.integers(0, 2**16 - 1),
}
PRIMITIVES = {
    **INTEGERS,
    "float64": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "string": st.text(max_size=20),
    "bytes": st.binary(max_size=20),
    "uuid": st.uuids().filter(lambda value: value.int != 0) | st.none(),
}


def values_of(item: Any) -> st.SearchStrategy[Any]:
    types = get_args(item.type) if get_origin(item.type) is not tuple else ()
    nullable = type(None) in types
    array = next((kind for kind in (item.type, *types) if get_origin(kind) is tuple), None)
    if "kafka_type" not in item.metadata:
        return st.lists(entities(get_args(array)[0]), max_size=3).map(tuple)
    one = PRIMITIVES[item.metadata["kafka_type"]]
    if array is not None:
        one = st.lists(one, max_size=4).map(tuple)
    return one | st.none() if nullable else one


def entities(kind: Any, version: int | None = None) -> st.SearchStrategy[Any]:
    given_fields = {}
    for item in fields(kind):
        if version is None or item.metadata["since"] <= version:
            given_fields[item.name] = values_of(item)
        else:
            given_fields[item.name] = st.just(absent_value(item))
    return st.builds(kind, **given_fields)


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        pytest.param(kind, version, id=f"{kind.__name__}-{version}")
        for kind in record_types.values()
        for version in range(kind.newest_version + 1)
    ],
)
@settings(max_examples=25)
@given(data=st.data())
def test_every_version_of_every_record_goes_round(kind: Any, version: int, data: st.DataObject) -> None:
    record = data.draw(entities(kind, version))
    value = encode_record(record, version)
    assert decode_record(value) == VersionedRecord(record, version)
    assert encode_record(decode_record(value).record, version) == value
    assert record_row(value)["version"] == version


def test_the_oldest_version_that_holds_a_record_is_written() -> None:
    unfenced = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, fenced=-1)
    stopping = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, in_controlled_shutdown=1)
    cordoned = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, cordoned_log_dirs=())
    assert [decode_record(encode_record(record)).version for record in (unfenced, stopping, cordoned)] == [0, 1, 3]


def test_a_version_that_cannot_say_it_is_refused() -> None:
    record = PartitionChangeRecord(partition_id=0, topic_id=UUID(int=9), directories=(UUID(int=5),))
    with pytest.raises(AssertionError, match="UUID"):
        encode_record(record, 0)


def test_fields_that_an_old_version_lacks_have_their_defaults() -> None:
    value = bytes.fromhex("01000000000001" + "00" * 15 + "07" + "0000000000000005" + "01" + "01" + "00" + "01" + "00")
    record = decode_record(value).record
    assert record == RegisterBrokerRecord(
        broker_id=1, incarnation_id=UUID(int=7), broker_epoch=5, end_points=(), features=(), rack=None, fenced=True
    )


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (b"", "no frame"),
        (b"\x02\x02\x00", "frame version 2"),
        (b"\x01\x7f\x00", "api key 127"),
        (b"\x01\x02\x09", "version 9"),
        (b"\x01\x12\x01" + bytes(40), "api key 18, version 1: a newer release wrote it"),
        (b"\x01\x02\x00\x05ab", "TopicRecord"),
        (b"\x01\x14\x00\x00\x00", "1 bytes too many"),
        (b"\x01\x14\x00\x01\x63\x01\x00", "NoOpRecord"),
    ],
)
def test_what_cannot_be_understood_says_so(value: bytes, complaint: str) -> None:
    with pytest.raises(MetadataRecordError, match=complaint):
        decode_record(value)


@given(value=st.binary(max_size=60))
def test_any_bytes_are_a_record_or_an_error(value: bytes) -> None:
    try:
        record, version = decode_record(b"\x01" + value)
    except MetadataRecordError:
        return
    assert isinstance(record, PartitionRecord | object)
    assert version >= 0


def test_secrets_are_not_printed() -> None:
    credential = UserScramCredentialRecord(
        name="u", mechanism=1, salt=b"salty", stored_key=b"secret", server_key=b"hidden", iterations=4096
    )
    assert "secret" not in json.dumps(record_row(encode_record(credential)))
