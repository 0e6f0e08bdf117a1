"""`tierfetch dump-log` against what `kafka-dump-log` says of the same files."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from crc32c import crc32c

from tierfetch.cli.dump_log import dump_log
from tierfetch.cli.dump_rows import BATCH_BYTES_MAX, parse_path, read_batches, text_lines
from tierfetch.log.core import encode_snapshot
from tierfetch.log.core.producer_state import ProducerStateEntry
from tierfetch.protocol.errors import CorruptRecordError
from tierfetch.protocol.records import Compression, Record, build_batch
from tierfetch.protocol.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from tierfetch.tests import samples

# fmt: off
RECORD_KEYS = [
    "offset", "timestamp", "key", "value", "headers",
    "producer_id", "leader_epoch", "control", "transactional", "codec",
]
# fmt: on


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(dump_log, [str(argument) for argument in arguments])


def sections(text: str) -> dict[str, list[str]]:
    """By file, the lines under `Dumping <file>`."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("Dumping "):
            lines = found.setdefault(line.removeprefix("Dumping "), [])
        else:
            lines.append(line)
    return found


def kafka_dumps() -> list[tuple[str, list[str]]]:
    """What Kafka printed for the files that are here, without its decoding of payloads."""
    dumps = []
    for topic in ("s-none-0", "s-zstd-0", "s-compact-0"):
        for path, lines in sections((samples.DUMPS / f"{topic}.txt").read_text()).items():
            dumps.append((path, lines))
    return dumps


@pytest.mark.parametrize(("path", "lines"), kafka_dumps(), ids=lambda value: value if isinstance(value, str) else "")
def test_text_is_what_kafka_prints(path: str, lines: list[str]) -> None:
    data = (samples.ROOT / path).read_bytes()
    ours = list(text_lines(parse_path(path), io.BytesIO(data), with_records=False))
    assert ours == [f"Dumping {path}", *lines]


def test_record_text_begins_as_kafka_prints_it() -> None:
    """Kafka decodes the payloads of this topic; all before that is the same."""
    printed = sections((samples.DUMPS / "remote_log_metadata-4.txt").read_text())
    (lines,) = printed.values()
    log = samples.BROKER / "__remote_log_metadata-4" / "00000000000000000000.log"
    with log.open("rb") as file:
        ours = list(text_lines(parse_path(str(log)), file, with_records=True))[1:]
    assert [line.split(" payload:")[0] for line in ours] == [line.split(" payload:")[0] for line in lines]


def test_records_as_json_give_back_the_topic() -> None:
    result = run("--records", "--json", *samples.log_files("s-zstd"))
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 0
    assert all(list(row) == RECORD_KEYS for row in rows)
    data = [
        Record(row["offset"], row["timestamp"], value=row["value"] and base64.b64decode(row["value"]))
        for row in rows
        if not row["control"]
    ]
    assert samples.digest(data) == samples.expected()["s-zstd"]["read_uncommitted"]
    assert {row["codec"] for row in rows if not row["control"]} == {"zstd"}
    assert {row["leader_epoch"] for row in rows} == {0, 1, 2, 3}
    assert {row["transactional"] for row in rows} == {True, False}


def write_log(path: Path, *batches: bytes | bytearray) -> Path:
    path.write_bytes(b"".join(batches))
    return path


def one_batch(offset: int = 0, **fields) -> bytes:
    headers = (("name", b"\x00\xff"), ("name", None))
    return build_batch([Record(offset, 5, None, b"v", headers)], base_offset=offset, **fields)


def test_record_row_in_full(tmp_path: Path) -> None:
    data = one_batch(7, producer_id=4, producer_epoch=0, base_sequence=0, partition_leader_epoch=2)
    result = run("--records", "--json", write_log(tmp_path / "7.log", data))
    assert json.loads(result.stdout) == {
        "offset": 7,
        "timestamp": 5,
        "key": None,
        "value": "dg==",
        "headers": [["name", "AP8="], ["name", None]],
        "producer_id": 4,
        "leader_epoch": 2,
        "control": False,
        "transactional": False,
        "codec": "none",
    }


def test_batch_row_in_full(tmp_path: Path) -> None:
    path = write_log(tmp_path / "00000000000000000007.log", one_batch(7, compression=Compression.GZIP))
    row = json.loads(run("--json", path).stdout)
    assert row.pop("crc") > 0
    assert row == {
        "file": str(path),
        "position": 0,
        "base_offset": 7,
        "last_offset": 7,
        "count": 1,
        "base_sequence": -1,
        "last_sequence": -1,
        "producer_id": -1,
        "producer_epoch": -1,
        "leader_epoch": -1,
        "transactional": False,
        "control": False,
        "delete_horizon_ms": None,
        "timestamp_type": "CreateTime",
        "max_timestamp": 5,
        "size_bytes": path.stat().st_size,
        "codec": "gzip",
    }


@pytest.mark.parametrize(
    ("path", "first_row"),
    [
        ("broker-2/s-none-0/00000000000000000222.index", {"offset": 295, "position": 10178}),
        ("broker-2/s-none-0/00000000000000000222.timeindex", {"timestamp": 1795248388960, "offset": 258}),
        (
            "broker-2/s-none-0/00000000000000000457.txnindex",
            {"version": 0, "producer_id": 1002, "first_offset": 501, "last_offset": 581, "last_stable_offset": 582},
        ),
        (
            "broker-2/s-none-0/00000000000000000457.snapshot",
            {
                "producer_id": 1002,
                "producer_epoch": 0,
                "coordinator_epoch": -1,
                "current_txn_first_offset": 420,
                "last_timestamp": 1795248397082,
                "first_sequence": 0,
                "last_sequence": 36,
                "last_offset": 456,
                "offset_delta": 36,
                "timestamp": 1795248397082,
            },
        ),
        ("broker-2/s-none-0/leader-epoch-checkpoint", {"leader_epoch": 0, "start_offset": 0}),
    ],
)
def test_entries_as_json(path: str, first_row: dict[str, int]) -> None:
    result = run("--json", samples.ROOT / path)
    assert json.loads(result.stdout.splitlines()[0]) == {"file": str(samples.ROOT / path), **first_row}


def test_every_sample_file_can_be_dumped() -> None:
    names = ("*.log", "*.index", "*.timeindex", "*.txnindex", "*.snapshot", "*.checkpoint", "*leader*checkpoint")
    paths = [path for name in names for path in samples.ROOT.rglob(name)]
    result = run("--json", *paths)
    assert result.exit_code == 0, result.stderr
    assert {Path(json.loads(line)["file"]).suffix for line in result.stdout.splitlines()} >= {
        *(".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint", ".leader_epoch_checkpoint", "")
    }


def test_producer_without_a_batch(tmp_path: Path) -> None:
    path = write_log(tmp_path / "9.snapshot", encode_snapshot([ProducerStateEntry(5, 1, 2, 77)]))
    line = (
        "producerId: 5 producerEpoch: 1 coordinatorEpoch: 2 currentTxnFirstOffset: OptionalLong.empty lastTimestamp: 77"
    )
    assert run(path).stdout.splitlines()[1:] == [line]
    assert json.loads(run("--json", path).stdout)["last_offset"] is None


def test_markers_are_named(tmp_path: Path) -> None:
    marker = EndTransactionMarker(ControlType.ABORT, coordinator_epoch=3)
    data = build_end_transaction_batch(marker, base_offset=0, timestamp_ms=1, producer_id=1, producer_epoch=0)
    result = run("--records", write_log(tmp_path / "0.log", data))
    assert result.stdout.splitlines()[-1].endswith("headerKeys: [] endTxnMarker: ABORT coordinatorEpoch: 3")


def test_records_cannot_move_the_cursor(tmp_path: Path) -> None:
    data = build_batch([Record(0, 0, b"\x1b[2J", "é\n\xff".encode("latin-1"), (("a\nb", b""),))], base_offset=0)
    line = run("--records", write_log(tmp_path / "0.log", data)).stdout.splitlines()[-1]
    assert line.endswith(r"headerKeys: [a\nb] key: \x1b[2J payload: \xe9\n\xff")


@pytest.mark.parametrize("mode", [[], ["--json"], ["--records"], ["--records", "--json"]])
def test_corrupt_batch_is_named_with_file_and_byte(tmp_path: Path, mode: list[str]) -> None:
    first, second = one_batch(0), bytearray(one_batch(1))
    second[-1] ^= 1
    bad = write_log(tmp_path / "00000000000000000000.log", first, second)
    good = write_log(tmp_path / "00000000000000000002.log", one_batch(2))
    result = run(*mode, bad, good)
    assert result.exit_code == 1
    assert f"error: {bad}: byte {len(first)}: CRC-32C is" in result.stderr
    assert sum(line.startswith(("baseOffset", "{")) for line in result.stdout.splitlines()) == 2


def test_damage_that_only_records_show_is_named_too(tmp_path: Path) -> None:
    two_records = bytearray(build_batch([Record(1, 0), Record(2, 0)], base_offset=1))
    two_records[57:61] = (1).to_bytes(4, "big")
    two_records[17:21] = crc32c(two_records[21:]).to_bytes(4, "big")
    path = write_log(tmp_path / "1.log", one_batch(0), two_records)
    assert run(path).exit_code == 0
    result = run("--records", "--json", path)
    assert result.exit_code == 1
    assert f"error: {path}: byte {len(one_batch(0))}: 7 bytes after the last of 1 records" in result.stderr


def test_malformed_control_record_is_named(tmp_path: Path) -> None:
    bad = build_batch([Record(1, 0, b"?")], base_offset=1, is_control=True)
    path = write_log(tmp_path / "0.log", one_batch(0), bad)
    result = run("--records", path)
    assert result.exit_code == 1
    assert f"error: {path}: byte {len(one_batch(0))}: control record at offset 1: key of 1 bytes" in result.stderr


@pytest.mark.parametrize("cut", [1, 61, 80])
def test_torn_tail_is_a_fault(tmp_path: Path, cut: int) -> None:
    whole = one_batch(0)
    path = write_log(tmp_path / "0.log", whole, whole[: len(whole) - cut] or b"x")
    result = run(path)
    assert result.exit_code == 1
    assert f"{path}: byte {len(whole)}: " in result.stderr


def test_absurd_batch_length_reads_nothing() -> None:
    data = bytearray(one_batch())
    data[8:12] = BATCH_BYTES_MAX.to_bytes(4, "big")
    with pytest.raises(CorruptRecordError, match=f"more than {BATCH_BYTES_MAX} is damage"):
        list(read_batches(io.BytesIO(data)))


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "00000000000000000000.leader_epoch_checkpoint"])
def test_a_checkpoint_larger_than_any_is_not_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate((4 << 20) + 1)
    result = CliRunner().invoke(dump_log, [str(path)])
    assert result.exit_code == 1
    assert f"{name}: 4194305 bytes, where a file of this name has at most 4194304" in result.output


def test_corrupt_index_is_named(tmp_path: Path) -> None:
    path = write_log(tmp_path / "00000000000000000000.timeindex", b"\1" * 13)
    result = run(path)
    assert result.exit_code == 1
    assert f"error: {path}: 13 bytes" in result.stderr


@pytest.mark.parametrize(
    ("name", "kind", "base_offset"),
    [
        ("00000000000000000457.log", "log", 457),
        ("00000000000000000457.log.deleted", "log", 457),
        ("00000000000000000457-V4IStolpSsCS2AhPBFXdaw.log", "log", 457),
        ("457_V4IStolpSsCS2AhPBFXdaw.txnindex", "txnindex", 457),
        ("00000000000000000663-0000000001.checkpoint", "checkpoint", 663),
        ("00000000000000000663.snapshot", "snapshot", 663),
        ("bootstrap.checkpoint", "checkpoint", None),
        ("leader-epoch-checkpoint", "leader_epoch_checkpoint", None),
        ("00000000000000000457-V4IStolpSsCS2AhPBFXdaw.leader_epoch_checkpoint", "leader_epoch_checkpoint", 457),
    ],
)
def test_names(name: str, kind: str, base_offset: int | None) -> None:
    parsed = parse_path(f"some/where.log/{name}")
    assert (parsed.kind, parsed.base_offset) == (kind, base_offset)


@pytest.mark.parametrize("name", ["cluster.id", "log", "x.log.bak", "partition.metadata"])
def test_foreign_name_is_a_usage_error(tmp_path: Path, name: str) -> None:
    result = run(write_log(tmp_path / name, b""))
    assert result.exit_code == 2
    assert "unknown kind of file" in result.stderr


def test_index_without_a_base_offset_is_refused(tmp_path: Path) -> None:
    result = run(write_log(tmp_path / "some.index", b""))
    assert result.exit_code == 1
    assert "must begin with the base offset" in result.stderr


def test_records_of_an_index_is_a_usage_error() -> None:
    result = run("--records", samples.partition_directory("s-none") / "00000000000000000000.index")
    assert result.exit_code == 2
    assert "holds no records" in result.stderr


def test_empty_log_is_fine() -> None:
    path = samples.partition_directory("s-compact") / "00000000000000000000.log"
    assert run(path).stdout == f"Dumping {path}\nLog starting offset: 0\n"
    assert run("--json", path).stdout == ""


def test_help_teaches() -> None:
    text = run("--help").stdout
    assert all(
        word in text
        for word in ["kafka-dump-log", "--records --json", "leader-epoch-checkpoint", "exit code", *RECORD_KEYS]
    )


METADATA_LOG = samples.CONTROLLER / "__cluster_metadata-0" / "00000000000000000000.log"


def test_metadata_records_are_shown_as_kafka_shows_them() -> None:
    prefix = "| payload: "
    lines = (samples.DUMPS / "cluster_metadata.txt").read_text().splitlines()
    printed = [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]
    shown = run("--cluster-metadata-decoder", METADATA_LOG)
    assert shown.exit_code == 0
    payloads = [line.split(" payload: ")[1] for line in shown.stdout.splitlines() if " payload: " in line]
    assert payloads == printed


def test_metadata_records_as_json_have_what_they_say_in_place_of_bytes() -> None:
    rows = [json.loads(line) for line in run("--cluster-metadata-decoder", "--json", METADATA_LOG).stdout.splitlines()]
    assert rows[0]["control"]
    assert rows[2]["metadata"]["data"] == {"name": "metadata.version", "featureLevel": 30}
    assert "value" not in rows[2]


def test_records_that_are_no_metadata_are_named_unknown(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(build_batch([Record(0, 0, None, b"\xff\xff")], base_offset=0))
    assert '{"unknown":' in run("--cluster-metadata-decoder", path).stdout


def test_control_records_of_the_quorum_are_shown_as_kafka_shows_them() -> None:
    path = samples.TESTDATA / "quorum" / "standalone.checkpoint"
    lines = list(text_lines(parse_path(str(path)), io.BytesIO(path.read_bytes()), with_records=True))
    shown = [line.split("headerKeys: [] ")[1] for line in lines if line.startswith("|")]
    assert shown == [
        'SnapshotHeader {"version":0,"lastContainedLogTimestamp":1795265526842}',
        'KRaftVersion {"version":0,"kRaftVersion":1}',
        'KRaftVoters {"version":0,"voters":[{"voterId":1,"voterDirectoryId":"8fF03T8mTdKrJ8jUAsW8zA","endpoints":'
        '[{"name":"CONTROLLER","host":"127.0.0.1","port":19391}],'
        '"kRaftVersionFeature":{"minSupportedVersion":0,"maxSupportedVersion":1}}]}',
        'SnapshotFooter {"version":0}',
    ]
