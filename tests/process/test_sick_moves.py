"""A replica that moves to a log directory whose disk fails, fills or hangs: where it is, it serves on."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.cli.main import cli
from tierfetch.protocol.errors import ErrorCode
from tierfetch.tests.process.clients import TIMEOUT_S, Librdkafka, create_topic
from tierfetch.tests.process.producing import SteadyProducer
from tierfetch.tests.process.sick_disk import SickDisk, why_not
from tierfetch.tests.process.test_directory_moves import alter

pytestmark = [pytest.mark.faults, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]

HANG_MS = 3_000
VALUES = [b" %05d" % number + b"x" * 10_000 for number in range(500)]
STALLS = "stays where it is, its move to"


@dataclass(frozen=True)
class Scene:
    """The replica is in `home`; `other` is on the sick disk."""

    cluster: LocalCluster
    disk: SickDisk
    home: str
    other: str

    def begin(self, directory: Path, *options: str) -> None:
        plan = directory / "plan.json"
        row = {"topic": "t", "partition": 0, "replicas": [1], "log_dirs": [self.other]}
        plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
        self._run("reassign", "execute", str(plan), "--no-wait", *options)

    def placements(self) -> dict[str, list[bool]]:
        """Return by log directory whether what is there is a future log, as `tierfetch log-dirs` has it."""
        found: list[dict[str, Any]] = json.loads(self._run("log-dirs", "describe", "--topic", "t", "--json"))
        return {row["directory"]: [each["future"] for each in row["replicas"]] for row in found}

    def errors(self) -> dict[str, str | None]:
        found = json.loads(self._run("log-dirs", "describe", "--json"))
        return {row["directory"]: row["error"] for row in found}

    def log(self) -> str:
        return self.cluster.log_file(1).read_text()

    def wait_logged(self, text: str) -> None:
        for _ in poll(TIMEOUT_S, text):
            if text in self.log():
                return

    def wait_moved(self) -> None:
        for _ in poll(TIMEOUT_S, "the replica to be in the other directory"):
            if self.placements() == {self.home: [], self.other: [False]}:
                return

    def throttle(self, rate: str) -> None:
        self._run(
            "configs", "alter", "--broker", "1", "--set", f"replica.alter.log.dirs.io.max.bytes.per.second={rate}"
        )

    def _run(self, *arguments: str) -> str:
        done = CliRunner().invoke(cli, [*arguments, "--bootstrap", self.cluster.bootstrap_servers])
        assert done.exit_code == 0, done.output
        return done.stdout


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    configs = {
        "log.dir.hang.timeout.ms": str(HANG_MS),
        "log.dir.free.bytes.min": str(4 << 20),
        "log.segment.bytes": "1048576",
    }
    with SickDisk(tmp_path / "sick") as disk:
        cluster = LocalCluster(tmp_path / "cluster", (1,), configs=configs)
        home, other = cluster.data_directory(1), disk.path / "logs"
        other.mkdir()
        cluster.broker_configs[1] = {"log.dirs": f"{home},{other}"}
        with cluster:
            assert alter(cluster, home) is ErrorCode.unknown_topic_or_partition  # it is created there
            create_topic(cluster.bootstrap_servers, "t", replicas=1)
            Librdkafka().produce(cluster.bootstrap_servers, "t", VALUES, "none")
            assert (home / "t-0").exists()
            yield Scene(cluster, disk, str(home), str(other))


@pytest.mark.parametrize("operation", ["write", "create", "fsync"])
def test_D4_a_destination_that_fails_costs_nothing_and_is_tried_again(
    scene: Scene, operation: str, tmp_path: Path
) -> None:
    with SteadyProducer(scene.cluster.bootstrap_servers, "t") as producer:
        producer.wait_acknowledged(10)
        scene.disk.fail("logs/t-0.*-future/*.log", operation, errno.EIO)
        scene.begin(tmp_path)
        scene.wait_logged(STALLS)
        producer.wait_acknowledged(100)
        assert False in scene.placements()[scene.home]
        scene.disk.heal()
        scene.wait_moved()
        producer.wait_acknowledged(100)
    producer.check_consumed()
    assert scene.log().count(STALLS) == 1, "it is logged once"
    assert "out of service" not in scene.log()


def test_D4_a_destination_without_room_takes_nothing_and_is_used_once_it_has_some(scene: Scene, tmp_path: Path) -> None:
    with SteadyProducer(scene.cluster.bootstrap_servers, "t") as producer:
        producer.wait_acknowledged(10)
        scene.disk.limit(6 << 20)
        scene.begin(tmp_path)
        scene.wait_logged(STALLS)
        producer.wait_acknowledged(100)
        assert scene.placements() == {scene.home: [False], scene.other: []}
        scene.disk.limit(1 << 30)
        scene.wait_moved()
    producer.check_consumed()
    assert "bytes free and" in scene.log()
    assert "is refused until" not in scene.log(), "clients' records were refused for the copy"


def test_D4_a_destination_that_hangs_holds_nothing_up_and_goes_offline(scene: Scene, tmp_path: Path) -> None:
    scene.throttle("500000")
    with SteadyProducer(scene.cluster.bootstrap_servers, "t") as producer:
        producer.wait_acknowledged(10)
        scene.begin(tmp_path)
        for _ in poll(TIMEOUT_S, "the copy to have begun"):
            if True in scene.placements()[scene.other]:
                break
        for operation in ("write", "fsync", "create", "open"):
            scene.disk.hang("logs/*", operation)
        scene.throttle("1000000000")
        scene.wait_logged("goes offline until the next start")
        producer.wait_acknowledged(100)
        scene.wait_logged("is not moved to")
        assert scene.placements()[scene.home] == [False]
        assert scene.errors() == {scene.home: None, scene.other: "offline"}
        scene.disk.heal()
        producer.wait_acknowledged(100)
    producer.check_consumed()
    assert "out of service" not in scene.log()
