"""The lab's steps on processes that do nothing: a broker frozen or dead in one runs again after it; topics' configs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tierfetch.bench.model import failing, topics
from tierfetch.bench.model.lab import FOLLOWER, LEADER, Lab
from tierfetch.bench.model.scenario import COPY, FROM_TIER, Kind, Scenario
from tierfetch.cli.local import poll
from tierfetch.model import Death
from tierfetch.protocol import TopicPartition

LAGS = Scenario(name="lags", total_mb=4, partitions=4, brokers=3, is_tiered=False, behind_mb=2)


@dataclass
class FakeCluster:
    """Brokers that are processes which do nothing. Each may be started only while it does not run, as real ones."""

    base: Path
    running: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, node: int) -> float:
        assert node not in self.running, f"node {node} runs already"
        self.running[node] = subprocess.Popen(["sleep", "60"])
        return 0.0

    def kill(self, node: int) -> None:
        process = self.running.pop(node)
        process.kill()
        process.wait()

    def process(self, node: int) -> subprocess.Popen[bytes]:
        return self.running[node]

    def data_directory(self, node: int) -> Path:
        return self.base / str(node)

    def host(self, node: int) -> str:
        return "127.0.0.1"

    def port(self, node: int) -> int:
        return 1

    def is_frozen(self, node: int) -> bool:
        stat = Path(f"/proc/{self.running[node].pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "T"

    def wait_frozen(self, node: int, *, is_frozen: bool) -> None:
        """Until the kernel has done what a signal says: it may take a moment on a busy machine."""
        for _ in poll(10.0, f"broker {node} to be frozen or not"):
            if self.is_frozen(node) == is_frozen:
                return


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[FakeCluster]:
    cluster = FakeCluster(tmp_path)
    for node in (1, 2, 3):
        cluster.start(node)
    yield cluster
    for node in list(cluster.running):
        cluster.kill(node)


@pytest.fixture
def lab(cluster: FakeCluster) -> Lab:
    return Lab("tierfetch", cluster, cluster.base, 3, cluster.base / "tier")  # type: ignore[arg-type]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """Topic, partitions and bytes of each that was filled; every ISR is at once what is waited for."""
    found: list[tuple[str, int, int]] = []

    def produce(_: object, partitions: int, size_bytes: int, *__: object, topic: str, **___: object) -> None:
        found.append((topic, partitions, size_bytes))

    monkeypatch.setattr(topics, "produce", produce)
    monkeypatch.setattr(topics, "wait_isr", lambda *_: 0.0)
    return found


@pytest.mark.usefixtures("written")
def test_who_lags_is_frozen_until_it_catches_up(lab: Lab, cluster: FakeCluster) -> None:
    topics._fall_behind(lab, LAGS, "t", 3)
    cluster.wait_frozen(3, is_frozen=True)
    assert [cluster.is_frozen(each) for each in (1, 2)] == [False, False]
    topics.catch_up(lab, LAGS)
    cluster.wait_frozen(3, is_frozen=False)


def test_who_lags_is_waited_for_in_no_isr_before_it_is_written_to(
    lab: Lab, written: list[tuple[str, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[dict[int, set[int]], int]] = []

    def wait_isr(_: object, isr: dict[int, set[int]], __: str) -> float:
        seen.append((isr, len(written)))
        return 0.0

    monkeypatch.setattr(topics, "wait_isr", wait_isr)
    topics._fall_behind(lab, LAGS, "t", 3)
    assert seen[0] == ({each: {1, 2} for each in range(4)}, 0)
    assert written == [("t", 4, 2_000_000)]


def test_every_topic_has_its_share_of_the_data(lab: Lab, written: list[tuple[str, int, int]]) -> None:
    scenario = Scenario(name="two", total_mb=10, partitions=5, topics=2, is_tiered=False)
    topics._filled(lab, scenario, "t", scenario.total_bytes, scenario.layout("t"))
    assert written == [("t", 3, 6_000_000), ("t-b", 2, 4_000_000)]


def test_topics_and_brokers_have_the_configs_that_the_scenario_is_about(lab: Lab) -> None:
    scenario = Scenario(
        name="mixed", total_mb=8, topics=2, untiered_topics=1, local_share=0.5, policies=FROM_TIER, throttle_mb_s=5
    )
    tiered, local = (topics.topic_configs(scenario, each) for each in scenario.topic_names("t"))
    assert (tiered["remote.storage.enable"], tiered["local.retention.bytes"]) == ("true", "1000000")
    assert tiered.keys() - local.keys() == {"remote.storage.enable", "local.retention.bytes"}
    assert local["leader.replication.throttled.replicas"] == "*"
    brokers = topics.broker_configs(lab, scenario)
    assert brokers["bootstrap.policy"] == "tier-first"
    assert brokers["follower.replication.throttled.rate"] == "5000000"
    rebalance = Scenario(name="r", total_mb=8, kind=Kind.ADD, brokers=3, policies=COPY, throttle_mb_s=5)
    assert topics.broker_configs(lab, rebalance) == {"follower.fetch.last.tiered.offset.enable": "false"}, (
        "its plan has the throttle"
    )


# --- a broker that dies -----------------------------------------------------------------------------------------------


class Looks:
    """What an administrator is answered: first that the connection is there, then as the test says."""

    def __init__(self, look: Callable[[], object]) -> None:
        self._look = look

    async def cluster(self, _: object, *, at: object = None) -> Any:
        return None if at is None else self._look()


def wait_dead(cluster: FakeCluster, death: Death, *, is_dead: bool) -> None:
    if death is Death.PROCESS:
        assert (FOLLOWER not in cluster.running) == is_dead
    else:
        cluster.wait_frozen(FOLLOWER, is_frozen=is_dead)


@pytest.mark.parametrize("death", Death)
@pytest.mark.parametrize("error", [KeyboardInterrupt, ConnectionError])
async def test_who_died_runs_again_however_the_looks_end(
    lab: Lab, cluster: FakeCluster, death: Death, error: type[BaseException]
) -> None:
    def look() -> None:
        wait_dead(cluster, death, is_dead=True)
        raise error

    with pytest.raises(error):
        await failing._watched(Looks(look), lab, ["t"], death)  # type: ignore[arg-type]
    wait_dead(cluster, death, is_dead=False)


@pytest.mark.parametrize("kind", [Kind.PROCESS, Kind.HOST])
def test_a_failover_that_cannot_begin_says_why(lab: Lab, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> float:
        raise ConnectionError("nothing listens there")

    monkeypatch.setattr(failing, "run_admin", refuse)
    monkeypatch.setattr(failing, "SETTLE_S", 0.0)
    scenario = Scenario(name="dies", total_mb=1, kind=kind, is_tiered=False)
    before = lab.cluster.process(FOLLOWER)
    with pytest.raises(ConnectionError, match="nothing listens there"):
        failing.fail_over(lab, scenario, "t")
    assert lab.cluster.process(FOLLOWER) is before


def test_what_is_left_without_some_brokers() -> None:
    layout = {TopicPartition("t", 0): [LEADER, FOLLOWER, 3]}
    assert topics.without(layout, FOLLOWER, 3) == {TopicPartition("t", 0): {LEADER}}
