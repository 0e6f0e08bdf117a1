"""The jobs on a real session, over a tier that Apache Kafka wrote"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.cli.main import cli
from tierfetch.protocol.records import iter_batches, iter_records
from tierfetch.tests import samples
from tierfetch.tests.fakes.aiven_tier import AivenWriter, private_pem
from tierfetch.tests.fakes.random_tier import History, consumed, segments
from tierfetch.tests.process.clients import Librdkafka, create_topic

from .tiers import TIMEOUT_S

UNCOMMITTED = "isolation=read_uncommitted"
SECRET = "AKIA-hidden-secret"


@pytest.fixture(autouse=True)
def session_stays(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands take the tests' session, and leave it."""
    monkeypatch.setattr(type(spark), "stop", lambda _: None)


def command(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["spark", *map(str, arguments)])


@pytest.fixture
def copied_tier(tmp_path: Path) -> Path:
    shutil.copytree(samples.TIER, tmp_path / "tier" / samples.TIER.name)
    return tmp_path / "tier"


def objects(tier: Path, topic: str, suffix: str) -> list[Path]:
    return sorted(tier.glob(f"kafka-tiered-storage/{topic}-0-*/*.{suffix}"))


def test_P2_audit_of_a_sound_tier(spark: Any, tmp_path: Path) -> None:
    page = tmp_path / "audit.html"
    result = command("audit", samples.TIER.parent, "--json", "--html", page, "--parquet", tmp_path / "parquet")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    logs = [path for topic in ("s-none", "s-trim") for path in objects(samples.TIER.parent, topic, "log")]
    batches = [header for path in logs for _, header in iter_batches(path.read_bytes())]
    segments = [segment for partition in found["partitions"] for segment in partition["segments"]]
    assert sum(segment["batches"] for segment in segments) == len(batches)
    assert sum(segment["records"] for segment in segments) == sum(header.record_count for header in batches)
    assert "Sound: every batch" in page.read_text()
    table = spark.read.parquet(str(tmp_path / "parquet" / "segments"))
    assert table.count() == len(segments) == len(logs)
    assert spark.read.parquet(str(tmp_path / "parquet" / "findings")).count() == 0


def test_P2_audit_finds_what_tier_verify_finds(copied_tier: Path, tmp_path: Path) -> None:
    log = objects(copied_tier, "s-none", "log")[2]
    content = bytearray(log.read_bytes())
    content[500] ^= 1
    log.write_bytes(content)
    objects(copied_tier, "s-none", "snapshot")[4].unlink()
    for path in log.parent.glob(f"{objects(copied_tier, 's-none', 'log')[6].name[:20]}*"):
        path.unlink()
    (log.parent / "notes.txt").write_text("mine")
    page = tmp_path / "audit.html"
    result = command("audit", copied_tier, "--json", "--html", page)
    assert result.exit_code == 1, result.output
    found = {
        (finding["kind"], finding["subject"], finding["message"])
        for partition in json.loads(result.stdout)["partitions"]
        for finding in partition["findings"]
    }
    assert {kind for kind, _, _ in found} == {"corrupt", "missing", "gap", "foreign"}
    verified = CliRunner().invoke(
        cli,
        ["tier", "verify", "--plugin", "local", "--option", f"dir={copied_tier}", "--from-objects", "--deep", "--json"],
    )
    assert found == {
        (finding["kind"], finding["subject"], finding["message"])
        for partition in json.loads(verified.stdout)["partitions"]
        for finding in partition["findings"]
    }
    assert "Damaged:" in page.read_text()


def test_P2_audit_against_the_remote_log_metadata(spark: Any, copied_tier: Path) -> None:
    """A segment that is gone by the second look is nobody's fault; one that is still there is damaged."""
    from tierfetch.pipeline.jobs import audit
    from tierfetch.remote.core import RemoteLogLedger, RemoteLogSegmentMetadataUpdate, RemoteLogSegmentState
    from tierfetch.tests.rlm.test_reader import sample_ledger_events

    partition, shared = sample_ledger_events("s-none")

    def ledger(*deleted: int) -> RemoteLogLedger:
        found = RemoteLogLedger(partition)
        for event in shared.events(partition):
            found.apply(event)
        for number in deleted:
            gone = finished[number].segment_id
            for state in (RemoteLogSegmentState.DELETE_SEGMENT_STARTED, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED):
                found.apply(RemoteLogSegmentMetadataUpdate(gone, state, 0, 1))
        return found

    finished = ledger().finished()
    for index in (0, 3):
        start = f"{finished[index].start_offset:020d}"
        for path in objects(copied_tier, "s-none", "log")[0].parent.glob(f"{start}*"):
            path.unlink()
    reads = iter([ledger(), ledger(0)])
    options = {"location": str(copied_tier), "topics": "s-none"}
    found = audit(spark, options, read_ledgers=lambda: {partition: next(reads)})
    assert found.by_metadata
    ((_, missing),) = found.findings
    assert (missing.kind, missing.subject) == ("missing", str(finished[3].segment_id))
    assert next(reads, None) is None, "it looked twice"


def test_P2_audit_of_a_cluster_at_work(cluster: LocalCluster) -> None:
    """The metadata comes from the brokers, which go on tiering."""
    tier = cluster.base / "tier"
    configs = {"remote.storage.enable": "true", "internal.segment.bytes": "60000", "local.retention.bytes": "1"}
    create_topic(cluster.bootstrap_servers, "audited", configs=configs)
    for _ in range(5):
        Librdkafka().produce(cluster.bootstrap_servers, "audited", [b"x" * 1000] * 40, "none")
    for _ in poll(TIMEOUT_S, "segments to be tiered", 0.2):
        if objects(tier, "audited", "log"):
            break
    result = command("audit", tier, "--topic", "audited", "--bootstrap", cluster.bootstrap_servers, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["by_metadata"]
    assert found["partitions"][0]["segments"]


def test_P2_the_jobs_on_a_tier_of_aivens_plugin(spark: Any, tmp_path: Path) -> None:
    """Encrypted and compressed; what the driver reads of the key reaches the executors."""
    pytest.importorskip("Cryptodome", reason="pip install '.[encryption]'")
    rng = random.Random(7)
    history = History().run([("plain", -1, 10)] * 40, rng)
    writer = AivenWriter(tmp_path / "tier", 2000, True, "Key1")
    for segment in segments(history, [10, 20, 30], rng):
        writer.write(segment.metadata, segment.log, segment.indexes)
    pem = tmp_path / "key.pem"
    pem.write_text(private_pem("Key1"))
    options = ("--option", f"encryption.Key1={pem}")
    audited = command("audit", tmp_path / "tier", *options, "--json")
    assert audited.exit_code == 0, audited.output
    found = json.loads(audited.stdout)
    count = len(consumed(history, "read_committed"))
    (partition,) = found["partitions"]
    assert found["layout"] == "aiven"
    assert len(partition["segments"]) == 4
    assert sum(segment["records"] for segment in partition["segments"]) == count
    profiled = command("profile", tmp_path / "tier", *options, "--json")
    assert json.loads(profiled.stdout)["topics"][0]["partitions"][0]["records"] == count
    exported = command("compact-to", tmp_path / "tier", tmp_path / "out", *options, "--json")
    assert json.loads(exported.stdout)["rows"] == count
    writer.written[1].with_suffix(".log").write_bytes(b"")
    damaged = command("audit", tmp_path / "tier", *options)
    assert damaged.exit_code == 1
    assert "wrong size" in damaged.stdout


def test_P2_an_export_tells_what_it_passed_over(copied_tier: Path, tmp_path: Path) -> None:
    log = objects(copied_tier, "s-trim", "log")[3]
    content = bytearray(log.read_bytes())
    content[70] ^= 1
    log.write_bytes(content)
    arguments = ("compact-to", copied_tier, tmp_path / "out", "--topic", "s-trim")
    assert command(*arguments).exit_code == 1
    lenient = command(*arguments, "--option", "mode=permissive", "--json")
    assert lenient.exit_code == 0, lenient.output
    (message,) = json.loads(lenient.stdout)["passed_over"]
    assert "has CRC" in message
    (commit,) = (tmp_path / "out" / "_tierfetch").glob("commit-*.json")
    assert json.loads(commit.read_text())["passed_over"] == [message]


def rows(spark: Any, out: Path) -> list[tuple[Any, ...]]:
    frame = spark.read.parquet(str(out))
    found = frame.selectExpr("topic", "partition", "offset", "key", "value", "unix_micros(timestamp) AS at", "date")
    return sorted(
        (row.topic, row.partition, row.offset, bytes(row.key or b""), bytes(row.value or b""), row["at"])
        for row in found.collect()
    )


def test_P2_export_has_the_rows_of_the_table(spark: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("compact-to", samples.TIER.parent, out, "--option", UNCOMMITTED, "--json")
    first = command(*arguments)
    assert first.exit_code == 0, first.output
    expected = sorted(
        (topic, 0, record.offset, record.key or b"", record.value or b"", record.timestamp * 1000)
        for topic in ("s-none", "s-trim")
        for path in objects(samples.TIER.parent, topic, "log")
        for position, header in iter_batches(path.read_bytes())
        if not header.is_control
        for record in iter_records(path.read_bytes(), position, header)
    )
    assert rows(spark, out) == expected
    assert json.loads(first.stdout)["rows"] == len(expected)
    assert json.loads(command(*arguments).stdout)["rows"] == 0
    assert rows(spark, out) == expected
    days = {row.date for row in spark.read.parquet(str(out)).select("date").distinct().collect()}
    assert days == {
        time.astimezone(UTC).date()
        for time in (row[0] for row in spark.read.parquet(str(out)).select("timestamp").collect())
    }


def test_P2_export_grows_with_the_tier(spark: Any, copied_tier: Path, tmp_path: Path) -> None:
    away = tmp_path / "away"
    away.mkdir()
    late = [path for path in objects(copied_tier, "s-trim", "*") if int(path.name[:20]) >= 700]
    for path in late:
        path.rename(away / path.name)
    out = tmp_path / "out"
    arguments = ("compact-to", copied_tier, out, "--topic", "s-trim", "--option", "metadata=true")
    assert command(*arguments).exit_code == 0
    before = rows(spark, out)
    for path in late:
        (away / path.name).rename(path)
    assert command(*arguments).exit_code == 0
    after = rows(spark, out)
    assert after[: len(before)] == before
    offsets = [row[2] for row in after]
    assert len(set(offsets)) == len(offsets) > len(before)
    assert {"leader_epoch", "segment_id"} <= set(spark.read.parquet(str(out)).columns)


def test_P2_profile(tmp_path: Path) -> None:
    page = tmp_path / "profile.html"
    result = command(
        "profile", samples.TIER.parent, "--topic", "s-none", "--json", "--html", page, "--option", UNCOMMITTED
    )
    assert result.exit_code == 0, result.output
    topics = {topic["topic"]: topic for topic in json.loads(result.stdout)["topics"]}
    records = [
        record
        for path in objects(samples.TIER.parent, "s-none", "log")
        for position, header in iter_batches(path.read_bytes())
        if not header.is_control
        for record in iter_records(path.read_bytes(), position, header)
    ]
    last = {record.key: record for record in records if record.key is not None}
    keys = topics["s-none"]["keys"]
    assert keys["records"] == len(records) == topics["s-none"]["partitions"][0]["records"]
    assert keys["null_keys"] == sum(record.key is None for record in records)
    assert keys["distinct_keys"] == len(last)
    assert keys["tombstones"] == sum(record.key is not None and record.value is None for record in records)
    assert keys["deleted_keys"] == sum(record.value is None for record in last.values())
    kept = sum(
        len(record.key or b"") + len(record.value or b"") for record in last.values() if record.value is not None
    )
    kept += sum(len(record.value or b"") for record in records if record.key is None)
    assert keys["kept_bytes"] == kept
    text = page.read_text()
    assert "Compaction potential" in text
    assert str(samples.TIER.parent) not in text
    table = command("profile", samples.TIER.parent, "--no-keys", "--topic", "s-trim")
    assert "s-trim" in table.stdout


def test_P2_sweep_runs_any_function(spark: Any) -> None:
    from tierfetch.pipeline.jobs import JobError, sweep

    def double(case: int) -> dict[str, int]:
        if case == 13:
            raise ValueError("case 13 is unlucky")
        return {"case": case, "twice": 2 * case}

    assert sweep(spark, range(5), double) == [{"case": case, "twice": 2 * case} for case in range(5)]
    with pytest.raises(JobError, match=r"^ValueError: case 13 is unlucky$"):
        sweep(spark, range(14), double)


def test_P2_sweep_of_the_replacement_model(spark: Any, tmp_path: Path) -> None:
    page = tmp_path / "sweep.html"
    result = command("sweep", "--clusters", 12, "--seed", 3, "--json", "--html", page, "--parquet", tmp_path / "rows")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["whole"]["clusters"] == 12
    assert 0 < found["whole"]["data_ratio"]["p50"] <= 1
    assert "can be as low as 10-15%" in page.read_text()
    assert spark.read.parquet(str(tmp_path / "rows")).count() == 24


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (("audit", "nowhere", "--option", "mood=good"), 1, "unknown option mood"),
        (("audit", "nowhere", "--option", "mood"), 2, "expected KEY=VALUE"),
        (("audit", samples.BROKER), 1, "is the log directory of a broker: an audit reads a tier"),
        (("audit", "nowhere"), 1, "the tier nowhere has none of the requested topics; check its location"),
        (("profile", "nowhere"), 1, "nothing of any topic is in the tier at "),
        (("profile", samples.TIER.parent, "--topics-pattern", "x"), 1, "has none of the requested topics"),
        (("compact-to", "nowhere", "out"), 1, "nothing of any topic is in the tier at "),
        (("profile", "nowhere", "--topic", "orders"), 1, "nothing of topic orders is in the tier"),
        (("profile", "nowhere", "--topic", "a", "--topics-pattern", "b"), 2, "either --topic or --topics-pattern"),
        (("compact-to", "nowhere", "ftp://u:p@h/x"), 1, "Arrow cannot open locations with ftp://"),
        (("sweep", "--before", "tier-first"), 2, "nothing to compare"),
        (("sweep", "--before", "tier-frist"), 2, "no policy 'tier-frist'"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(arguments: tuple[object, ...], exit_code: int, message: str) -> None:
    result = command(*arguments)
    assert result.exit_code == exit_code, result.output
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert "u:p@h" not in result.output


def test_credentials_are_in_no_report_and_no_message(copied_tier: Path, tmp_path: Path) -> None:
    """Of a store that refuses them too."""
    options = ("--option", f"storage.access.key.id={SECRET}", "--option", f"storage.secret.access.key={SECRET}")
    endpoint = ("--option", "storage.endpoint.url=http://127.0.0.1:1", "--option", "storage.region=us-east-1")
    for name in ("audit", "profile"):
        result = command(name, "s3://bucket/tier", *options, *endpoint)
        assert result.exit_code == 1
        assert SECRET not in result.output
        assert "Traceback" not in result.output
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


@pytest.mark.slow
def test_P2_the_demo_ends_well(tmp_path: Path) -> None:
    result = command("demo", "--html-dir", tmp_path / "pages")
    assert result.exit_code == 0, result.output
    assert "all as it should be" in " ".join(result.stdout.split())
    assert "Nothing new in the tier" in result.stdout
    assert "For a browser: " in result.stdout
    assert {path.name for path in (tmp_path / "pages").iterdir()} == {"audit.html", "profile.html"}


@pytest.mark.slow
def test_P2_executors_of_their_own_need_the_package_alone(tmp_path: Path) -> None:
    """Other processes, in another directory; a location that is relative here."""
    shutil.copytree(samples.TIER, tmp_path / "tier" / samples.TIER.name)
    words = ("spark", "audit", "tier", "--master", "local-cluster[1,1,1024]", "--json")
    result = subprocess.run(
        [sys.executable, "-m", "tierfetch.cli.main", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=2 * TIMEOUT_S,
    )
    assert result.returncode == 0, result.stderr
    assert len(json.loads(result.stdout)["partitions"]) == 2
    assert "log level" not in result.stderr
