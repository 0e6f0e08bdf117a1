"""`tierfetch tier` on a tier that Apache Kafka wrote, without a broker."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tierfetch.cli.tier import tier
from tierfetch.cli.tier.report import Listing, Verification, age
from tierfetch.tests import samples

TOPIC = "s-trim"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(tier, [str(argument) for argument in arguments])


def from_objects(command: str, directory: Path, *arguments: str) -> Result:
    return run(command, "--plugin", "local", "--option", f"dir={directory}", "--from-objects", *arguments)


@pytest.fixture
def copied_tier(tmp_path: Path) -> Path:
    """One topic of Kafka's tier, to be damaged."""
    source = samples.tier_directory(TOPIC)
    shutil.copytree(source, tmp_path / "kafka-tiered-storage" / source.name)
    return tmp_path


def a_file(directory: Path, suffix: str) -> Path:
    return sorted(directory.glob(f"kafka-tiered-storage/*/*.{suffix}"))[1]


def test_ls_shows_segments_and_totals() -> None:
    result = from_objects("ls", samples.TIER.parent, "--topic", TOPIC)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("s-trim-0  (topic id ")
    assert [cell.strip() for cell in lines[5].strip("│").split("│")][:5] == [
        "222",
        "456",
        "62.4 KiB",
        "0-1",
        "COPY_SEGMENT_FINISHED",
    ]
    assert lines[-1] == "1 partition, 7 finished segments, 431 KiB"


def test_ls_as_json() -> None:
    found = Listing.model_validate_json(from_objects("ls", samples.TIER.parent, "--json").stdout)
    assert [(row.topic, row.partition) for row in found.partitions] == [("s-none", 0), ("s-trim", 0)]
    trim = found.partitions[1]
    assert trim.finished_segments == len(trim.segments) == 7
    assert trim.size_bytes == sum(path.stat().st_size for path in samples.tier_directory(TOPIC).glob("*.log"))
    second = trim.segments[1]
    assert (second.start_offset, second.end_offset, second.leader_epochs) == (222, 456, [0, 1])
    assert found.size_bytes == sum(row.size_bytes for row in found.partitions)


def test_an_empty_tier(tmp_path: Path) -> None:
    assert from_objects("ls", tmp_path).stdout == "0 partitions, 0 finished segments, 0 B\n"
    assert from_objects("verify", tmp_path).exit_code == 0


@pytest.mark.parametrize("command", ["ls", "verify"])
def test_a_topic_that_is_not_there_is_no_success(command: str) -> None:
    result = from_objects(command, samples.TIER.parent, "--topic", TOPIC, "--topic", "s-tirm")
    assert result.exit_code == 1
    assert "nothing of s-tirm is in this tier" in result.stderr


@pytest.mark.parametrize("deep", [(), ("--deep",)])
def test_a_sound_tier_passes(deep: tuple[str, ...]) -> None:
    result = from_objects("verify", samples.TIER.parent, *deep)
    assert result.exit_code == 0, result.output
    assert result.stdout == "2 partitions, 22 finished segments, 1.3 MiB: all as it should be\n"


def test_a_missing_object_fails(copied_tier: Path) -> None:
    a_file(copied_tier, "snapshot").unlink()
    result = from_objects("verify", copied_tier)
    assert result.exit_code == 1
    assert "no snapshot in the tier" in result.stdout
    assert "1 finding\n" in result.stdout


def test_a_corrupt_batch_fails_if_every_byte_is_read(copied_tier: Path) -> None:
    path = a_file(copied_tier, "log")
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    assert from_objects("verify", copied_tier).exit_code == 0
    result = from_objects("verify", copied_tier, "--deep", "--json")
    assert result.exit_code == 1
    found = Verification.model_validate_json(result.stdout)
    (finding,) = found.partitions[0].findings
    assert (finding.kind, finding.is_damage, found.findings) == ("corrupt", True, 1)
    assert "CRC" in finding.message


def test_leftovers_fail_too_and_are_told_from_damage(copied_tier: Path) -> None:
    sorted(copied_tier.glob("kafka-tiered-storage/*/*.log"))[-1].unlink()
    a_file(copied_tier, "log").with_name("notes.txt").write_text("mine")
    result = from_objects("verify", copied_tier, "--json")
    found = Verification.model_validate_json(result.stdout)
    kinds = {(finding.kind, finding.is_damage) for finding in found.partitions[0].findings}
    assert (result.exit_code, kinds) == (1, {("foreign", False), ("orphan", False)})


def test_a_brokers_configuration_names_the_tier(tmp_path: Path) -> None:
    config = tmp_path / "broker.properties"
    lines = (
        "node.id=1",
        "log.dirs=data",
        "controller.quorum.bootstrap.servers=127.0.0.1:9093",
        "remote.log.storage.system.enable=true",
        "remote.log.storage.manager.plugin=local",
        f"rsm.config.dir={samples.TIER.parent}",
    )
    config.write_text("\n".join(lines))
    assert run("verify", "--config", config, "--from-objects").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (("verify",), 2, "say which tier: --config"),
        (("ls", "--profile", "absent"), 1, "--profile: there is no profile 'absent'"),
        (("ls", "--plugin", "local", "--option", "dir", "--from-objects"), 2, "expected KEY=VALUE"),
        (("ls", "--plugin", "local", "--from-objects"), 1, "--option dir: required, and not given"),
        (("ls", "--plugin", "locl", "--from-objects"), 1, "no plugin 'locl' is installed"),
        (("ls", "--config", "absent.properties"), 1, "absent.properties: cannot be read"),
        (("ls", "--bootstrap", "nowhere"), 2, "expected HOST:PORT"),
        (("ls", "--bootstrap", "127.0.0.1:1"), 1, "127.0.0.1:1 cannot be reached"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(arguments: tuple[str, ...], exit_code: int, message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == exit_code, result.output
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_a_configuration_without_a_tier(tmp_path: Path) -> None:
    config = tmp_path / "broker.properties"
    config.write_text("node.id=1\nlog.dirs=data\ncontroller.quorum.bootstrap.servers=127.0.0.1:9093\n")
    result = run("verify", "--config", config, "--from-objects")
    assert result.exit_code == 1
    assert "remote.log.storage.manager.plugin is missing" in result.stderr


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [(-5, "0 s"), (900, "0 s"), (59_000, "59 s"), (150_000, "2 min"), (7_200_000, "2 h"), (200_000_000, "2 d")],
)
def test_age(duration_ms: int, text: str) -> None:
    assert age(duration_ms) == text
