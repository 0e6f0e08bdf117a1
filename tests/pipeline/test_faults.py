"""What is wrong is named, with its place and what to do, or passed over where that was asked for"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from crc32c import crc32c

from tierfetch.pipeline.access.brokers import Brokers, LiveTopic
from tierfetch.pipeline.access.options import CORRUPT_COLUMN, EARLIEST, LATEST, OptionError, parse
from tierfetch.pipeline.access.worker import WORKER
from tierfetch.pipeline.planning.driver import catalog_of, planning
from tierfetch.pipeline.planning.table import TablePlanner, TableSplit
from tierfetch.pipeline.planning.tier_splits import TierError
from tierfetch.protocol.errors import CorruptRecordError
from tierfetch.protocol.records import iter_batches
from tierfetch.protocol.topics import TopicPartition
from tierfetch.remote import IndexType, RemoteStorageCorruptError
from tierfetch.remote.registry import PluginError
from tierfetch.tests.fakes.random_tier import PARTITION, START_MS, History, segments, write_kafka_tier

from .tables import all_splits, offsets, options_of, plan, read, rows

TOPIC = PARTITION.topic
BATCHES, RECORDS, SEGMENTS = 30, 10, 3


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    """Three segments of ten batches of ten records each."""
    rng = random.Random(1)
    history = History().run([("plain", -1, RECORDS)] * BATCHES, rng)
    write_kafka_tier(tmp_path, segments(history, [10, 20], rng))
    return tmp_path


def logs(tier: Path) -> list[Path]:
    return sorted(tier.glob("*/*/*.log"))


def damage(log: Path, nth: int, at: int, value: int, *, with_crc: bool = False) -> int:
    """Of the nth batch; where that begins."""
    content = bytearray(log.read_bytes())
    position = [position for position, _ in iter_batches(bytes(content))][nth]
    content[position + at] = value
    if with_crc:
        end = position + 12 + int.from_bytes(content[position + 8 : position + 12], "big")
        content[position + 17 : position + 21] = crc32c(bytes(content[position + 21 : end])).to_bytes(4, "big")
    log.write_bytes(content)
    return position


@pytest.mark.parametrize(
    ("at", "value", "with_crc", "said"),
    [
        (65, 0x7F, False, r"batch at offset 120 has CRC 0x"),
        (16, 1, False, r"magic 1 in the header of the batch at offset 120 is not known"),
        (22, 7, True, r"attributes 7 in the header of the batch at offset 120 is not known"),
    ],
)
def test_a_batch_that_cannot_be_read(
    tier: Path, at: int, value: int, with_crc: bool, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A flipped bit, an unknown magic, an unknown codec."""
    position = damage(logs(tier)[1], 2, at, value, with_crc=with_crc)
    place = rf"random-0, segment random-0-\S+: {said}.*\(batch at byte {position}\)"
    with pytest.raises(CorruptRecordError, match=place):
        offsets(tier, topics=TOPIC)
    assert set(offsets(tier, topics=TOPIC, mode="permissive")) >= {*range(120), *range(130, 300)} - lost_to_compaction(
        tier
    )
    assert "skipped" in caplog.text
    assert f"(batch at byte {position})" in caplog.text


def lost_to_compaction(tier: Path) -> set[int]:
    """Offsets that the history itself lacks."""
    rng = random.Random(1)
    history = History().run([("plain", -1, RECORDS)] * BATCHES, rng)
    return set(range(300)) - {record.offset for batch in history.batches for record in batch.records}


def test_a_codec_that_is_not_what_the_header_says(tier: Path) -> None:
    log = logs(tier)[1]
    _, header = list(iter_batches(log.read_bytes()))[2]
    position = damage(log, 2, 22, header.compression % 4 + 1, with_crc=True)
    with pytest.raises(CorruptRecordError, match=rf"batch at offset 120: .*\(batch at byte {position}\)"):
        offsets(tier, topics=TOPIC)


def test_an_object_that_is_shorter_than_was_planned(tier: Path, caplog: pytest.LogCaptureFixture) -> None:
    options = options_of(tier, topics=TOPIC)
    splits = plan(options)
    log = logs(tier)[1]
    log.write_bytes(log.read_bytes()[:-5])
    with pytest.raises(TierError, match=r"random-0, segment .* came back as \d+ bytes; the metadata states a size of"):
        read(options, splits[1])
    permissive = options_of(tier, topics=TOPIC, mode="permissive")
    assert read(permissive, splits[1]) == []
    assert "skipped" in caplog.text


def test_an_object_that_is_shorter_when_it_is_planned(tier: Path) -> None:
    """The survey finds it: its offsets are missing, and why."""
    log = logs(tier)[1]
    log.write_bytes(log.read_bytes()[:-5])
    with pytest.raises(TierError, match=r"offsets \[100, 200\) are in no segment of the tier \(corrupt: .*ends within"):
        plan(options_of(tier, topics=TOPIC))
    assert {offset // 100 for offset in offsets(tier, topics=TOPIC, failOnDataLoss="false")} == {0, 2}


def test_a_damaged_first_segment_is_no_beginning(tier: Path) -> None:
    log = logs(tier)[0]
    log.write_bytes(log.read_bytes()[:-5])
    with pytest.raises(TierError, match=r"random-0 cannot be read below offset 100: corrupt: .*ends within"):
        plan(options_of(tier, topics=TOPIC))
    later = {"startingOffsets": json.dumps({TOPIC: {"0": 150}})}
    assert min(offsets(tier, topics=TOPIC, **later)) >= 150, "who asks for what is there gets it"
    assert {offset // 100 for offset in offsets(tier, topics=TOPIC, failOnDataLoss="false")} == {1, 2}


class Live(Brokers):
    """Have one partition, of all but its first hundred offsets."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1:1", committed_only=True)

    async def topics(self, names: Sequence[str] | None) -> list[LiveTopic]:
        return [LiveTopic(TOPIC, PARTITION.topic_id, {0: None})]

    async def offsets(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, {EARLIEST: 100, LATEST: 300}[timestamp])


def test_damage_below_the_brokers_log_start_is_none(tier: Path) -> None:
    log = logs(tier)[0]
    log.write_bytes(log.read_bytes()[:-5])
    options = options_of(tier, topics=TOPIC)
    splits = WORKER.run(all_splits(TablePlanner(options, catalog_of(options), Live())))
    assert {row["offset"] // 100 for split in splits for row in read(options, split, ("offset",))} == {1, 2}


def test_a_damaged_last_segment_that_another_one_overlaps_is_no_end(tier: Path) -> None:
    rng = random.Random(1)
    history = History().run([("plain", -1, RECORDS)] * BATCHES, rng)
    log = logs(tier)[2]
    (overlapping,) = [one for one in segments(history, [15, 25], rng) if one.metadata.start_offset == 150]
    write_kafka_tier(tier, [overlapping])
    assert max(offsets(tier, topics=TOPIC)) == 299
    log.write_bytes(log.read_bytes()[:-5])
    with pytest.raises(TierError, match=r"random-0 cannot be read from offset 250 on: corrupt: "):
        plan(options_of(tier, topics=TOPIC))


def test_a_damaged_last_segment_is_no_end(tier: Path) -> None:
    log = logs(tier)[2]
    log.write_bytes(log.read_bytes()[:-5])
    with pytest.raises(TierError, match=r"random-0 cannot be read from offset 200 on: corrupt: "):
        plan(options_of(tier, topics=TOPIC))
    assert {offset // 100 for offset in offsets(tier, topics=TOPIC, failOnDataLoss="false")} == {0, 1}


def test_a_missing_object(tier: Path) -> None:
    logs(tier)[1].unlink()
    with pytest.raises(TierError, match=r"offsets \[100, 200\) are in no segment .* set failOnDataLoss to false"):
        plan(options_of(tier, topics=TOPIC))
    assert {offset // 100 for offset in offsets(tier, topics=TOPIC, failOnDataLoss="false")} == {0, 2}


def test_a_missing_index(tier: Path) -> None:
    logs(tier)[1].with_suffix(".index").unlink()
    with pytest.raises(TierError, match=r"offsets \[100, 200\) .*\(missing: .*no such object in the tier"):
        plan(options_of(tier, topics=TOPIC))


def test_what_is_damaged_beside_the_last_segment_is_named(tier: Path) -> None:
    logs(tier)[-1].with_suffix(f".{IndexType.PRODUCER_SNAPSHOT.value}").write_bytes(b"nonsense that is none")
    with pytest.raises(RemoteStorageCorruptError, match=r"producer snapshot of segment random-0-\S+: "):
        plan(options_of(tier, topics=TOPIC))


def test_a_segment_that_is_deleted_while_the_job_runs(tier: Path, caplog: pytest.LogCaptureFixture) -> None:
    options = options_of(tier, topics=TOPIC)
    splits = plan(options)
    logs(tier)[0].unlink()
    with pytest.raises(
        TierError, match=r"random-0, segment .* does not exist .*deleted since the job was planned.*run the job"
    ):
        read(options, splits[0])
    assert read(options_of(tier, topics=TOPIC, failOnDataLoss="false"), splits[0]) == []
    assert "skipped" in caplog.text


def test_a_topic_that_is_not_there(tier: Path) -> None:
    with pytest.raises(TierError, match=r"nothing of topic absent is in the tier at"):
        plan(options_of(tier, topics="random,absent"))


def test_credentials_that_are_missing_are_said_when_planning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    options = parse(
        {
            "location": "s3://some-bucket/tier",
            "topics": "t",
            "storage.region": "eu-central-1",
            "storage.endpoint.url": "http://127.0.0.1:9",
        }
    )
    with pytest.raises(
        TierError,
        match=r"the bucket: Unable to locate credentials\. .* given as storage\.\* options, which go to the executors",
    ):
        planning(options, all_splits)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("topic", "unknown option topic; did you mean topics?"),
        ("maxOffsetPerTrigger", "unknown option maxOffsetPerTrigger; did you mean maxOffsetsPerTrigger?"),
        ("starting_offset", "unknown option starting_offset; did you mean startingOffsets?"),
        ("logDir", "unknown option logDir; did you mean logDirs?"),
        ("subscribe", "unknown option subscribe; did you mean topics?"),
        ("subscribePattern", "unknown option subscribePattern; did you mean topicsPattern?"),
        ("kafka.bootstrap.servers", "unknown option kafka.bootstrap.servers; did you mean brokers?"),
        ("nonsense", "unknown option nonsense. Options: brokers, columnNameOfCorruptRecord, "),
    ],
)
def test_a_misspelt_option_is_named_with_the_right_one(option: str, said: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse({"location": "/tier", option: "x"})
    assert str(caught.value).startswith(said)


def test_a_misspelt_option_of_the_storage_is_named_with_the_right_one() -> None:
    options = parse({"location": "s3://bucket", "topics": "t", "storage.regoin": "x"})
    with pytest.raises(PluginError, match=r"storage\.regoin: unknown key; did you mean storage\.region\?"):
        planning(options, all_splits)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"randon": {"0": 5}}, "startingOffsets names randon-0, which is not in the table: random-0"),
        ({"random": {"0": 5, "1": 5}}, "startingOffsets names random-1, which is not in the table: random-0"),
        ({"random": {"0": 301}}, r"startingOffsets of random-0: offset 301 is not there; the table holds \[0, 300\)"),
    ],
)
def test_offsets_of_what_is_not_there(tier: Path, asked: dict[str, dict[str, int]], said: str) -> None:
    with pytest.raises(TierError, match=said):
        plan(options_of(tier, topics=TOPIC, startingOffsets=json.dumps(asked)))


@pytest.mark.spark
@pytest.mark.parametrize("name", ["value", "segment_id"])
def test_a_column_for_reports_that_records_have_already_is_refused(name: str) -> None:
    pytest.importorskip("pyspark")
    from tierfetch.pipeline.spark.columns import schema

    with pytest.raises(OptionError, match=f"columnNameOfCorruptRecord is {name}, which is a column of records"):
        schema(parse({"location": "/t", "topics": "t", "columnNameOfCorruptRecord": name}))


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("startingOffsets", "yesterday", "'yesterday' is neither earliest nor latest nor JSON such as {\"topic\": "),
        ("endingOffsets", '{"t":{"x":1}}', '\'{"t":{"x":1}}\' is neither earliest nor latest nor JSON such as'),
        ("startingOffsetsByTimestamp", "1700000000000", "'1700000000000' is no JSON such as {\"topic\": "),
        ("layout", "parquet", "Input should be 'kafka', 'aiven', 'logdir' or 'auto'"),
        ("logDirs", "a,,b", "'a,,b' names a directory with an empty name"),
        ("location", "s3://", "s3://: expected s3://BUCKET/PREFIX"),
        ("topicsPattern", "(", "Input should be a valid regular expression"),
    ],
)
def test_a_value_that_cannot_be_is_said_with_its_option(option: str, value: str, said: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse({"location": "/tier", "topics": "t"} | {option: value})
    assert str(caught.value).startswith(f"option {option}: {said}")


def test_a_place_with_nothing_is_no_empty_table(tier: Path) -> None:
    """A pattern that matches nothing is."""
    asked = {"topicsPattern": "nothing.*"}
    assert plan(options_of(tier, **asked)) == []
    with pytest.raises(TierError, match=r"nothing of any topic is in the tier at .*/misspelt"):
        plan(options_of(tier / "misspelt", **asked))
    with pytest.raises(TierError, match=r"nothing of topic random is in the tier at .* in the layout aiven, which the"):
        plan(options_of(tier, topics=TOPIC, layout="aiven"))
    with pytest.raises(
        OptionError, match=r"option logDirs: .*/misspelt is not a log directory of a broker: it has neither"
    ):
        plan(options_of(tier, topics=TOPIC, logDirs=tier / "misspelt"))


def test_a_log_directory_is_found_from_anywhere(tmp_path: Path) -> None:
    """Executors may run in another directory."""
    options = parse({"location": "tier", "topics": "t", "logDirs": "one, /two"})
    assert options.log_dirs == (str(Path("one").absolute()), "/two")


def test_words_are_taken_in_any_case() -> None:
    written = {"mode": "PERMISSIVE", "startingOffsets": "Latest ", "layout": "Kafka"}
    options = parse({"location": "/t", "topics": "T", **written})
    assert (options.mode, options.starting_offsets, options.layout) == ("permissive", "latest", "kafka")
    assert parse({"location": "/t", "topics": "T", "startingOffsets": '{"T":{"0":1}}'}).starting_offsets == {
        "T": {0: 1}
    }


@pytest.mark.parametrize("written", ["{}", "file:{}", "file://{}", "{}/", "{}/kafka-tiered-storage"])
@pytest.mark.parametrize("name", ["plain", "with space", "per%20cent", "h#sh?", "ümläut", "a:b", "{braces}", "*"])
def test_places_with_any_name(tmp_path: Path, name: str, written: str) -> None:
    rng = random.Random(1)
    history = History().run([("plain", -1, RECORDS)] * BATCHES, rng)
    write_kafka_tier(tmp_path / name, segments(history, [10, 20], rng))
    options = parse({"location": written.replace("{}", str(tmp_path / name)), "topics": TOPIC})
    assert len(plan(options)) == 3


def test_a_time_is_looked_for_in_a_damaged_batch(tier: Path) -> None:
    damage(logs(tier)[0], 0, 65, 0x7F)
    asked = {"topics": TOPIC, "startingTimestamp": START_MS}
    with pytest.raises(TierError, match=r"random-0, segment \S+, where the offset of .*batch at byte 0"):
        plan(options_of(tier, **asked))
    assert plan(options_of(tier, mode="permissive", **asked))


def test_secrets_are_never_shown(tmp_path: Path) -> None:
    pem = "-----BEGIN PRIVATE KEY-----\nsecret\n"
    options = parse({"location": "/t", "topics": "t", "storage.secret.access.key": "hush", "encryption.k": pem})
    assert "hush" not in repr(options)
    assert "secret\n" not in repr(options)
    with pytest.raises(OptionError, match=r"option encryption: .*k: neither a key in PEM nor a file with one"):
        parse({"location": "/t", "topics": "t", "encryption.k": str(tmp_path / "absent.pem")})


def test_what_lies_at_the_place_is_found_out(tier: Path) -> None:
    """With nothing there that could be told, it is the tier's own layout that is missed."""
    assert {split.store.layout for split in plan(options_of(tier, topics=TOPIC))} == {"kafka"}
    shutil.rmtree(tier / "kafka-tiered-storage")
    with pytest.raises(TierError, match="nothing of topic random is in the tier"):
        plan(options_of(tier, topics=TOPIC))


# What was passed over, as rows.

TOLD = ("topic", "partition", "offset", "value", CORRUPT_COLUMN)


def told(tier: Path, *splits: TableSplit, **options: object) -> list[tuple[int | None, str]]:
    """(offset, what is wrong) of the rows that are no records."""
    parsed = options_of(tier, topics=TOPIC, **options)
    found = [row for split in splits or plan(parsed) for row in read(parsed, split, TOLD)]
    reports = [row for row in found if row[CORRUPT_COLUMN] is not None]
    assert all((row["topic"], row["partition"], row["value"]) == (TOPIC, 0, None) for row in reports)
    assert len(reports) < len(found) or splits
    return [(row["offset"], row[CORRUPT_COLUMN]) for row in reports]


def test_a_batch_that_is_passed_over_is_a_row_where_that_is_asked_for(tier: Path) -> None:
    position = damage(logs(tier)[1], 2, 65, 0x7F)
    ((offset, message),) = told(tier, mode="permissive")
    assert offset == 120
    assert re.fullmatch(
        rf"random-0, segment \S+: .*batch at offset 120 has CRC .*\(batch at byte {position}\)", message
    )
    assert told(tier, mode="permissive", columnNameOfCorruptRecord=CORRUPT_COLUMN) == [(offset, message)]


def test_an_offset_that_cannot_be_is_not_told(tier: Path) -> None:
    damage(logs(tier)[1], 2, 0, 0x7F)
    damage(logs(tier)[1], 2, 65, 0x7F)
    ((offset, _),) = told(tier, mode="permissive")
    assert offset is None


def test_an_object_that_was_cut_and_one_that_is_gone_are_rows(tier: Path) -> None:
    _, cut, gone = plan(options_of(tier, topics=TOPIC))
    logs(tier)[1].write_bytes(logs(tier)[1].read_bytes()[:-5])
    logs(tier)[2].unlink()
    ((offset, message),) = told(tier, cut, mode="permissive")
    assert offset is None
    assert "came back as" in message
    ((offset, message),) = told(tier, gone, failOnDataLoss=False)
    assert offset == 200
    assert "does not exist" in message


@pytest.mark.parametrize("asked", [{}, {"startingOffsets": 150}, {"endingOffsets": 150}])
def test_offsets_that_are_nowhere_are_a_row(tier: Path, asked: dict[str, int]) -> None:
    logs(tier)[1].unlink()
    bounds = {name: json.dumps({TOPIC: {"0": offset}}) for name, offset in asked.items()}
    with pytest.raises(TierError, match=r"offsets \[1\d0, \d+\) are in no segment of the tier"):
        plan(options_of(tier, topics=TOPIC, **bounds))
    ((offset, message),) = told(tier, failOnDataLoss=False, **bounds)
    assert offset == max(100, asked.get("startingOffsets", 0))
    assert f"offsets [{offset}, {min(200, asked.get('endingOffsets', 300))}) are in no segment" in message


def test_without_the_column_there_are_records_alone(tier: Path) -> None:
    damage(logs(tier)[1], 2, 65, 0x7F)
    logs(tier)[0].unlink()
    found = rows(tier, ("offset", "topic"), topics=TOPIC, mode="permissive", failOnDataLoss=False)
    assert {row["offset"] for row in found} <= {*range(100, 120), *range(130, 300)}
