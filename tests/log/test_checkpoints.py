"""Checkpoint files: Kafka's own, byte for byte, and what the errors of broken ones say."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.log.core import (
    CorruptFileError,
    EpochEntry,
    LeaderEpochCache,
    MetaProperties,
    decode_leader_epochs,
    decode_meta_properties,
    decode_offsets,
    decode_partition_metadata,
    encode_meta_properties,
    encode_offsets,
    encode_partition_metadata,
)
from tierfetch.log.core.checkpoints import decode_clean_shutdown, encode_clean_shutdown, encode_leader_epochs
from tierfetch.protocol.topics import METADATA_TOPIC_ID, TopicPartition
from tierfetch.tests import samples


def sample_files(*patterns):
    files = sorted(path for pattern in patterns for path in samples.ROOT.rglob(pattern))
    assert len(files) > 1
    return files


def test_E1_kafkas_leader_epoch_checkpoints_round_trip():
    seen = 0
    for path in sample_files("leader-epoch-checkpoint", "*.leader_epoch_checkpoint"):
        entries = decode_leader_epochs(path.read_bytes())
        assert encode_leader_epochs(entries) == (path.read_bytes() or b"0\n0\n"), path
        assert LeaderEpochCache(entries).entries == entries
        seen += len(entries)
    assert seen > 50


def test_E1_the_epochs_of_a_real_partition():
    entries = decode_leader_epochs((samples.partition_directory("s-none") / "leader-epoch-checkpoint").read_bytes())
    assert entries == (EpochEntry(0, 0), EpochEntry(1, 744), EpochEntry(2, 1889), EpochEntry(3, 2633))


def test_kafkas_offset_checkpoints_round_trip():
    for path in sample_files("*-offset-checkpoint"):
        offsets = decode_offsets(path.read_bytes())
        assert offsets
        assert encode_offsets(offsets) == path.read_bytes(), path
    assert decode_offsets((samples.BROKER / "replication-offset-checkpoint").read_bytes())[
        TopicPartition("s-none", 0)
    ] == (samples.expected()["s-none"]["read_uncommitted"]["last"] + 2)


def test_kafkas_partition_metadata_round_trips():
    for path in sample_files("partition.metadata"):
        topic_id = decode_partition_metadata(path.read_bytes())
        assert encode_partition_metadata(topic_id) == path.read_bytes(), path
    metadata = samples.CONTROLLER / "__cluster_metadata-0" / "partition.metadata"
    assert decode_partition_metadata(metadata.read_bytes()) == METADATA_TOPIC_ID


def test_Q11_kafkas_meta_properties_round_trip():
    for path in sample_files("meta.properties"):
        data = path.read_bytes()
        date = data.decode().split("\n")[1]
        written_at = datetime.strptime(date, "#%a %b %d %H:%M:%S UTC %Y").replace(tzinfo=UTC)
        properties = decode_meta_properties(data)
        assert encode_meta_properties(properties, written_at=written_at) == data, path
    assert decode_meta_properties((samples.BROKER / "meta.properties").read_bytes()).node_id == 2


def test_Q11_meta_properties_of_an_older_kafka_have_no_directory_id():
    properties = MetaProperties("abc", 7, None)
    data = encode_meta_properties(properties, written_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert b"directory.id" not in data
    assert decode_meta_properties(data) == properties


def test_kafkas_clean_shutdown_file_round_trips():
    data = b'{"version":0,"brokerEpoch":429}'
    assert decode_clean_shutdown(data) == 429
    assert encode_clean_shutdown(429) == data
    assert decode_clean_shutdown(b"") == -1


def test_empty_tables():
    assert encode_leader_epochs(()) == encode_offsets({}) == b"0\n0\n"
    assert decode_leader_epochs(b"0\n0\n") == decode_leader_epochs(b"") == ()
    assert decode_offsets(b"") == {}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\n", "^E line 1: expected version 0, found ''$"),
        (b"1\n0\n", "^E line 1: expected version 0, found '1'$"),
        (b"0\n", r"^E line 2: expected the number of rows \(0\.\.\d+\), found the end of the file$"),
        (b"0\nx\n", "^E line 2: expected the number of rows .*found 'x'$"),
        (b"0\n2\n0 0\n", "^E line 2: 2 rows expected, 1 follow$"),
        (b"0\n0\n\n", "^E line 2: 0 rows expected, 1 follow$"),
        (b"0\n1\n0\n", "^E line 3: expected '<epoch> <start offset>', found '0'$"),
        (b"0\n2\n0 0\n1 -5\n", "^E line 4: expected a start offset .*found '-5'$"),
        (b"0\n1\n2147483648 0\n", r"^E line 3: expected an epoch \(0\.\.2147483647\), found '2147483648'$"),
        (b"0\n1\n0 " + b"9" * 5000, "^E line 3: expected a start offset .*found '9{60}'$"),
        (b"0\n1\n\xd9\xa1 0\n", "^E line 3: expected an epoch"),  # an arabic digit
        (b"0\n\xff", "^E: expected text, found byte 0xff at 2$"),
    ],
)
def test_a_broken_epoch_checkpoint_says_what_and_where(data, message):
    with pytest.raises(CorruptFileError, match=message):
        decode_leader_epochs(data, name="E")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"0\n1\nt 0\n", "^O line 3: expected '<topic> <partition> <offset>', found 't 0'$"),
        (b"0\n1\n../t 0 1\n", "^O line 3: topic name '../t' is illegal"),
        (b"0\n2\nt 0 1\nt 0 2\n", "^O line 4: partition t-0 is listed twice$"),
    ],
)
def test_a_broken_offset_checkpoint_says_what_and_where(data, message):
    with pytest.raises(CorruptFileError, match=message):
        decode_offsets(data, name="O")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "line 1: expected 'version: 0', found ''"),
        (b"version: 1\n", "line 1: expected 'version: 0', found 'version: 1'"),
        (b"version: 0", "line 2: expected 'topic_id: <22 characters>', found the end of the file"),
        (b"version: 0\ntopic_id: AAA", "line 2: 'AAA' is not a Kafka uuid"),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\nx", "line 3: expected the end of the file, found 'x'"),
    ],
)
def test_broken_partition_metadata_says_what_and_where(data, message):
    with pytest.raises(CorruptFileError, match=f"partition.metadata {message}"):
        decode_partition_metadata(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected version=1, found None"),
        (b"version=0\nbroker.id=1\n", "expected version=1, found '0'"),
        (b"version=1\n", "cluster.id and node.id must be set"),
        (b"version=1\ncluster.id=c\nnode.id=-1", "node.id must be an integer >= 0, found '-1'"),
        (b"version=1\ncluster.id=c\nnode.id=1\ndirectory.id=x", "directory.id 'x' is not a Kafka uuid"),
        (b"a=\\u12", "meta.properties: "),
    ],
)
def test_Q11_broken_meta_properties_say_what_is_wrong(data, message):
    with pytest.raises(CorruptFileError, match=message):
        decode_meta_properties(data)


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"version":1,"brokerEpoch":1}', b'{"version":0,"brokerEpoch":"1"}'])
def test_a_broken_clean_shutdown_file_says_what_was_expected(data):
    with pytest.raises(CorruptFileError, match=r"\.kafka_cleanshutdown.*expected"):
        decode_clean_shutdown(data)


TopicNames = st.text("azAZ09._-", min_size=1, max_size=20).filter(lambda name: name not in {".", ".."})


@given(st.dictionaries(st.tuples(st.integers(0, 2**31 - 1), TopicNames), st.integers(0, 2**63 - 1), max_size=10))
def test_offset_checkpoints_round_trip(rows):
    offsets = {TopicPartition(topic, partition): offset for (partition, topic), offset in rows.items()}
    assert decode_offsets(encode_offsets(offsets)) == offsets


@given(
    st.integers(0, 2**31 - 1),
    st.uuids(),
    st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), min_size=1),
)
def test_meta_properties_round_trip(node_id: int, directory_id: UUID, cluster_id: str):
    properties = MetaProperties(cluster_id, node_id, directory_id)
    data = encode_meta_properties(properties, written_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert decode_meta_properties(data) == properties


@given(st.binary(max_size=100))
def test_foreign_bytes_decode_or_are_corrupt_and_nothing_else(data):
    for decode in (
        decode_leader_epochs,
        decode_offsets,
        decode_partition_metadata,
        decode_meta_properties,
        decode_clean_shutdown,
    ):
        with suppress(CorruptFileError):
            decode(data)
