"""`tierfetch reassign plan`, and journals on a real disk."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import click
import numpy as np
import pytest
from click.testing import CliRunner

from tierfetch.cli.admin import reassign_plan
from tierfetch.cli.admin.reassign import _begin_all, reassign
from tierfetch.cli.admin.reassign_cluster import PlanCluster
from tierfetch.cli.admin.reassign_journal import JournalFile, default_path
from tierfetch.cli.model.snapshot import BrokerState, Offsets, PartitionState, RemoteSegment, Snapshot
from tierfetch.planning.cluster_state import ClusterState, Standing, standing
from tierfetch.planning.journal import ConfigValue, Event, Mode, Outcome
from tierfetch.planning.plan_file import PlanFile, Roll
from tierfetch.protocol import uuid_to_text
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.messages.cluster import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from tierfetch.protocol.messages.topics import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from tierfetch.tests.planning.clusters import cluster
from tierfetch.tests.planning.fake_cluster import FakeCluster, Run, entry

ENTRIES = [entry(0, (1, 2), (3, 2))]


class LateBroker:
    """A controller that has begun to move t-0 from (1, 2) to (3, 2), and a broker that has not replayed it yet."""

    async def send(self, request: Any) -> Any:
        if isinstance(request, ListPartitionReassignmentsRequest):
            part = OngoingPartitionReassignment(
                partition_index=0, replicas=(3, 2, 1), adding_replicas=(3,), removing_replicas=(1,)
            )
            return ListPartitionReassignmentsResponse(
                error_message=None, topics=(OngoingTopicReassignment(name="t", partitions=(part,)),)
            )
        parts = (
            MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=(1, 2), isr_nodes=(1, 2)),
            MetadataResponsePartition(partition_index=1, leader_id=1, replica_nodes=(1, 2), isr_nodes=(1, 2)),
        )
        topic = MetadataResponseTopic(name="t", topic_id=UUID(int=7), partitions=parts)
        return MetadataResponse(brokers=(), topics=(topic,), controller_id=-1)


async def test_S5_a_move_that_has_just_begun_is_not_taken_for_that_of_another_client() -> None:
    state = await PlanCluster(LateBroker()).state(["t"])  # type: ignore[arg-type]
    topic_id = uuid_to_text(UUID(int=7))
    assert standing(entry(0, (1, 2), (3, 2)), topic_id, state) is Standing.MOVING
    assert standing(entry(1, (1, 2), (3, 2)), topic_id, state) is Standing.BEFORE


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    arrays = cluster([(1, 2), (2, 3), (3, 1)] * 4, brokers=4, racks=4, tiered=[0.5] * 12, produce=1e5)
    path = tmp_path / "cluster.yaml"
    path.write_text(arrays.to_inventory().to_yaml())
    return path


def invoke(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(reassign, [str(each) for each in arguments], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.output


def test_S2_a_plan_is_shown_and_written(inventory: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    said = invoke("plan", "--cluster", inventory, "--replace", 1, "--with", 4, "--throttle", "10 MB/s", "--out", out)
    assert "8 replicas move" in said
    assert "any plan needs at least 8 moves" in said
    plan = PlanFile.read(out)
    assert len(plan.partitions) == 8
    assert plan.details.throttle_bytes_per_s == 10_000_000
    assert all(each.replicas[0] != 4 for each in plan.partitions), "thin ones last"
    assert {each.replicas[0] for each in plan.details.leaders} == {4}


def test_a_plan_as_a_document(inventory: Path) -> None:
    found = json.loads(invoke("plan", "--cluster", inventory, "--add", 4, "--tier-first", "--json"))
    assert found["moves"] == found["moves_min"]
    assert found["tier_first_saves_bytes"] > 0
    assert [row["replicas"][1] for row in found["brokers"] if row["id"] == 4] == [6]


def test_nothing_to_do_is_said(inventory: Path) -> None:
    assert "nothing to do" in invoke("plan", "--cluster", inventory, "--rebalance", "--tolerance", 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--add", 4, "--cluster", "FILE", "--bootstrap", "host:1"), "name one: an inventory by --cluster FILE"),
        (("--cluster", "FILE"), "give one of --replace"),
        (("--cluster", "FILE", "--add", 4, "--remove", 1), "give one of --replace"),
        (("--cluster", "FILE", "--replace", "1,2", "--with", 4), "as many brokers"),
        (("--cluster", "FILE", "--replace", "1,1", "--with", "4,3"), "names a broker twice"),
        (("--cluster", "FILE", "--rebalance", "--tolerance", "nan"), "'nan' is not a finite number"),
        (("--cluster", "FILE", "--remove", 9), "no broker 9"),
        (("--cluster", "FILE", "--remove", "x"), "expected broker ids"),
        (("--cluster", "FILE", "--throttle", "much", "--add", 4), "'much' is not a quantity"),
    ],
)
def test_wrong_usage_is_named(arguments: tuple[object, ...], message: str, inventory: Path) -> None:
    given = [inventory if each == "FILE" else each for each in arguments]
    assert message in invoke("plan", *given, code=2)


def test_S2_a_dead_broker_hides_nobody_elses_room(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Snapshot(
        brokers={1: BrokerState(id=1, rack="r", disk_bytes=10**12)},
        topic_configs={},
        partitions={("t", 0): PartitionState(topic="t", index=0, leader=1, replicas=(1, 2), isr=(1,))},
        local_bytes={(1, "t", 0): 1000},
    )
    monkeypatch.setattr(reassign_plan, "run", lambda *_: (found, None))
    arrays, dead = reassign_plan._from_cluster(("host:1",), 0.0, None)
    assert arrays.disk_bytes.tolist() == [1e12, float("inf")]
    assert dead == {1}
    assert "note: brokers 2 hold replicas but are not alive: rack and disk unknown" in capsys.readouterr().err


def tiered_cluster(remote: dict[tuple[str, int], list[RemoteSegment]] | None) -> Snapshot:
    """`t` lies in the tier alone, `u` on the disk: on broker 1 both, broker 3 is empty."""
    offsets = Offsets(log_start=0, local_log_start=100, last_tiered=99, log_end=100)
    names = [("t", 0), ("u", 0)]
    return Snapshot(
        brokers={each: BrokerState(id=each, rack=f"r{each}", disk_bytes=10**12) for each in (1, 2, 3)},
        topic_configs={"t": {"remote.storage.enable": "true"}},
        partitions={
            (topic, 0): PartitionState(
                topic=topic, index=0, leader=1, replicas=(1, 2), isr=(1, 2), offsets=offsets if topic == "t" else None
            )
            for topic, _ in names
        },
        local_bytes={(broker, topic, 0): 0 if topic == "t" else 1000 for broker in (1, 2) for topic, _ in names},
        remote=remote,
    )


LIVE = ("plan", "--replace", 1, "--with", 3, "--throttle", "1 MiB/s", "--window", 0, "--policy", "log-start")


def test_S2_a_live_plan_knows_what_lies_in_the_tier_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reassign_plan, "run", lambda *_: (tiered_cluster({("t", 0): [RemoteSegment(0, 99, 77)]}), None))
    arrays, _ = reassign_plan._from_cluster(("host:1",), 0.0, None)
    assert arrays.tiered_bytes.tolist() == [77, 0]
    assert arrays.size_bytes.tolist() == [77, 1000]
    assert "unknown" not in invoke(*LIVE)


def test_S2_a_live_plan_takes_no_unknown_size_as_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reassign_plan, "run", lambda *_: (tiered_cluster(None), None))
    said = invoke(*LIVE, code=1)
    assert "of unknown size: t-0; say what each counts with --unknown-size '10 GiB'" in said
    assert "note: of unknown size: t-0; each counts 5.0 KiB" in invoke(*LIVE, "--unknown-size", "5 KiB")
    arrays, _ = reassign_plan._from_cluster(("host:1",), 0.0, 5120.0)
    assert arrays.size_bytes.tolist() == [5120, 1000]


def test_S2_a_plan_without_a_throttle_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = cluster([(1, 2), (2, 3), (3, 1)] * 4, brokers=4)
    free = np.full(4, np.inf)
    arrays = replace(arrays, nic_in=free, nic_out=free, disk_read=free, disk_write=free)
    monkeypatch.setattr(reassign_plan, "_from_cluster", lambda *_: (arrays, frozenset()))
    live = ("plan", "--replace", 1, "--with", 4)
    assert "no throttle: no request returns what brokers can do" in invoke(*live)
    assert "no throttle" not in invoke(*live, "--throttle", "50 MB/s")


def test_what_cannot_be_planned_is_said_in_one_line(inventory: Path, tmp_path: Path) -> None:
    said = invoke("plan", "--cluster", inventory, "--remove", "1,2,3", code=1)
    assert "has 2 replicas, and only 1 brokers may hold one" in said
    assert "cannot be read" in invoke("plan", "--cluster", tmp_path / "none", "--add", 4, code=1)
    nowhere = tmp_path / "none" / "plan.json"
    assert "cannot be written" in invoke("plan", "--cluster", inventory, "--add", 4, "--out", nowhere, code=2)


# --- journals ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def journal(tmp_path: Path) -> JournalFile:
    header = Run(FakeCluster.of(ENTRIES), ENTRIES).journal.header
    return JournalFile.create(default_path(tmp_path / "plan.json"), header)


def test_events_of_others_are_seen(journal: JournalFile) -> None:
    another = JournalFile.open(journal.path)
    another.append(Event(event="pause", at_ms=1))
    assert journal.refresh().mode is Mode.PAUSING
    journal.append(Event(event="ended", at_ms=2, outcome=Outcome.PAUSED))
    assert another.refresh().outcome is Outcome.PAUSED
    assert JournalFile.open(journal.path).journal == journal.journal


def test_what_a_crash_tore_off_is_cut_away(journal: JournalFile) -> None:
    journal.append(Event(event="started", at_ms=1))
    with journal.path.open("ab") as file:
        file.write(b'{"event": "canc')
    opened = JournalFile.open(journal.path)
    assert opened.journal.mode is Mode.FORWARD
    opened.append(Event(event="roll_back", at_ms=2))
    assert journal.refresh().mode is Mode.ROLLING_BACK
    assert JournalFile.open(journal.path).journal.mode is Mode.ROLLING_BACK


def test_one_process_carries_a_plan_out(journal: JournalFile) -> None:
    another = JournalFile.open(journal.path)
    assert not another.is_owned()
    with journal.owned():
        assert another.is_owned()
        with pytest.raises(click.ClickException, match="another process"), another.owned():
            pass
    assert not another.is_owned()


def test_a_plan_that_another_process_begins_is_left_to_it(
    journal: JournalFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = journal.path.with_name("plan.json")
    plan.write_text('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [3, 2]}]}')
    data = journal.path.read_bytes()
    journal.path.unlink()
    fake = FakeCluster.of(ENTRIES, live={1, 2, 3})

    async def state(_self: PlanCluster, _topics: list[str]) -> ClusterState:
        journal.path.write_bytes(data)  # the other one was faster
        return fake.state()

    monkeypatch.setattr(PlanCluster, "state", state)
    assert "was begun already" in invoke("execute", plan, code=1)
    assert journal.path.read_bytes() == data


def test_a_refused_request_says_how_to_go_on(journal: JournalFile, monkeypatch: pytest.MonkeyPatch) -> None:
    async def state(self: PlanCluster, _topics: list[str]) -> ClusterState:
        self.cluster_id = "c"
        return FakeCluster.of(ENTRIES).state()

    async def refuse(*_: object) -> None:
        raise KafkaError(ErrorCode.cluster_authorization_failed, "no")

    monkeypatch.setattr(PlanCluster, "state", state)
    monkeypatch.setattr(PlanCluster, "set_configs", refuse)
    said = invoke("resume", journal.path.with_name("plan.json"), code=1)
    resume = f"tierfetch reassign resume {journal.path.with_name('plan.json')}"
    assert f"throttles stay set: `{resume}` does the rest" in said


def test_a_plan_remembers_which_of_its_brokers_were_dead_when_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [3, 2]}]}')

    async def state(self: PlanCluster, _topics: list[str]) -> ClusterState:
        self.cluster_id = "c"
        return FakeCluster.of(ENTRIES, live={2, 3}).state()

    async def refuse(*_: object) -> None:
        raise KafkaError(ErrorCode.cluster_authorization_failed, "no")

    monkeypatch.setattr(PlanCluster, "state", state)
    monkeypatch.setattr(PlanCluster, "reassign", refuse)
    invoke("execute", plan, code=1)
    assert JournalFile.open(default_path(plan)).journal.header.dead == (1,)


def test_S2_a_throttle_that_only_resume_gives_is_written_down_with_what_was_there_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = default_path(tmp_path / "plan.json")
    JournalFile.create(path, Run(FakeCluster.of(ENTRIES), ENTRIES, throttle=None).journal.header)
    mine = ConfigValue(kind="broker", name="1", key="leader.replication.throttled.rate", value="77")
    asked: list[Any] = []

    async def state(self: PlanCluster, _topics: list[str]) -> ClusterState:
        self.cluster_id = "c"
        return FakeCluster.of(ENTRIES).state()

    async def configs(_self: PlanCluster, keys: list[tuple[str, str, tuple[str, ...]]]) -> tuple[ConfigValue, ...]:
        asked.append([(kind, name) for kind, name, _ in keys])
        return (mine,)

    async def refuse(*_: object) -> None:
        raise KafkaError(ErrorCode.cluster_authorization_failed, "no")

    monkeypatch.setattr(PlanCluster, "state", state)
    monkeypatch.setattr(PlanCluster, "configs", configs)
    monkeypatch.setattr(PlanCluster, "set_configs", refuse)
    for rate in ("5 MB/s", "6 MB/s"):
        invoke("resume", tmp_path / "plan.json", "--throttle", rate, code=1)
    assert asked == [[("topic", "t"), ("broker", "1"), ("broker", "2"), ("broker", "3")]], "the second time it is known"
    found = JournalFile.open(path).journal
    assert found.header.old_configs == (mine,)
    assert found.throttle_bytes_per_s == 6_000_000


NOT_FOR_RESUME = {
    "--allow-replication-factor-change": "the plan was looked at when it began, and its numbers of replicas accepted",
    "--no-wait": "a plan that was begun so has no journal, and nothing to resume",
}
ONLY_FOR_RESUME = {"--skip-changed": "nothing can have changed yet when a plan begins"}


def test_resume_takes_what_execute_takes() -> None:
    options = {
        name: {each.opts[0] for each in reassign.commands[name].params if isinstance(each, click.Option)}
        for name in ("execute", "resume")
    }
    assert set(NOT_FOR_RESUME) <= options["execute"]
    assert options["resume"] == (options["execute"] - set(NOT_FOR_RESUME)) | set(ONLY_FOR_RESUME)


def test_resume_writes_down_how_much_moves_at_a_time_from_now_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [entry(number, (1, 2), (3, 2)) for number in range(3)]
    path = default_path(tmp_path / "plan.json")
    JournalFile.create(path, Run(FakeCluster.of(entries), entries).journal.header)

    async def state(self: PlanCluster, _topics: list[str]) -> ClusterState:
        self.cluster_id = "c"
        return FakeCluster.of(entries).state()

    async def refuse(*_: object) -> None:
        raise KafkaError(ErrorCode.cluster_authorization_failed, "no")

    monkeypatch.setattr(PlanCluster, "state", state)
    monkeypatch.setattr(PlanCluster, "set_configs", refuse)
    invoke("resume", tmp_path / "plan.json", "--partitions-per-broker", 1, "--share-brokers", code=1)
    found = JournalFile.open(path).journal
    assert [each.wave for each in found.header.entries] == [0, 1, 2]
    assert found.header.shares_brokers
    invoke("resume", tmp_path / "plan.json", code=1)
    assert JournalFile.open(path).journal.header == found.header, "what was asked for earlier holds"


@pytest.mark.parametrize(("as_json", "said"), [([], "1 partition begins to move"), (["--json"], {"begun": 1})])
def test_moves_that_are_begun_without_a_journal_are_counted(
    as_json: list[str], said: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [3, 2]}]}')

    async def state(_self: PlanCluster, _topics: list[str]) -> ClusterState:
        return FakeCluster.of(ENTRIES).state()

    async def nothing_refused(*_: object) -> list[str]:
        return []

    monkeypatch.setattr(PlanCluster, "state", state)
    monkeypatch.setattr(PlanCluster, "move_directories", nothing_refused)
    monkeypatch.setattr("tierfetch.cli.admin.reassign.ask_controller", nothing_refused)
    found = invoke("execute", plan, "--no-wait", *as_json)
    assert (json.loads(found) if as_json else found.strip()) == said


def test_what_is_asked_of_a_running_process_is_said_as_json(journal: JournalFile) -> None:
    with journal.owned():
        found = json.loads(invoke("cancel", journal.path.with_name("plan.json"), "--json"))
    assert found == {"asked": "cancel", "journal": str(journal.path)}


def test_a_plan_that_is_done_moves_nothing_again(journal: JournalFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody has moved its partitions since: resume sets back what a broker that was not alive has kept."""

    async def state(self: PlanCluster, _topics: list[str]) -> ClusterState:
        self.cluster_id = "c"
        return FakeCluster.of(ENTRIES).state()

    async def refuse(*_: object) -> None:
        raise AssertionError("nothing is to be moved")

    async def set_configs(_self: PlanCluster, values: Sequence[ConfigValue]) -> None:
        put_back.extend(values)

    put_back: list[ConfigValue] = []
    monkeypatch.setattr(PlanCluster, "state", state)
    monkeypatch.setattr(PlanCluster, "reassign", refuse)
    monkeypatch.setattr(PlanCluster, "set_configs", set_configs)
    plan = journal.path.with_name("plan.json")
    journal.append(Event(event="ended", at_ms=1, outcome=Outcome.DONE))
    assert "nothing to resume: " in invoke("resume", plan)
    assert put_back == []
    journal.append(Event(event="ended", at_ms=1, outcome=Outcome.DONE, left=(3,)))
    assert "done:" in invoke("resume", plan)
    assert put_back == list(journal.journal.header.old_configs)


def test_another_cluster_changes_nothing_of_a_journal(journal: JournalFile, monkeypatch: pytest.MonkeyPatch) -> None:
    async def state(self: PlanCluster, _topics: list[str]) -> ClusterState:
        self.cluster_id = "another"
        return ClusterState(frozenset({1, 2, 3}), {})

    monkeypatch.setattr(PlanCluster, "state", state)
    data = journal.path.read_bytes()
    for arguments in (("resume", "--skip-changed"), ("cancel",), ("rollback",)):
        said = invoke(arguments[0], journal.path.with_name("plan.json"), *arguments[1:], code=1)
        assert "is of cluster c, this is another: check --bootstrap" in said
    assert journal.path.read_bytes() == data


def test_leaders_do_not_count_as_rolling_before_they_were_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roll = Roll(topics=("t",), segment_ms=1000, wait_max_s=30)
    run = Run(FakeCluster.of(ENTRIES), ENTRIES, throttle=None, roll=roll)
    path = default_path(tmp_path / "plan.json")
    JournalFile.create(path, run.journal.header)

    async def state(self: PlanCluster, _topics: list[str]) -> ClusterState:
        self.cluster_id = "c"
        return run.cluster.state()

    async def log_ends(*_: object) -> dict[tuple[str, int], int]:
        return {("t", 0): 100}

    async def refuse(*_: object) -> None:
        raise KafkaError(ErrorCode.policy_violation, "no")

    monkeypatch.setattr(PlanCluster, "state", state)
    monkeypatch.setattr(PlanCluster, "log_ends", log_ends)
    monkeypatch.setattr(PlanCluster, "set_configs", refuse)
    invoke("resume", tmp_path / "plan.json", code=1)
    assert JournalFile.open(path).journal.rolled_at_ms is None


def test_a_lock_that_cannot_be_opened_is_named(journal: JournalFile) -> None:
    journal.path.with_name("plan.json.journal.lock").mkdir()
    for verb in ("pause", "cancel", "rollback"):
        assert "plan.json.journal.lock: cannot be opened" in invoke(verb, journal.path.with_name("plan.json"), code=1)


def test_without_a_journal_it_says_what_to_do(tmp_path: Path) -> None:
    for verb in ("resume", "rollback", "pause"):
        assert "no journal: the plan was not begun" in invoke(verb, tmp_path / "plan.json", code=1)


def test_a_plan_is_not_begun_twice(journal: JournalFile, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [3, 2]}]}')
    assert "was begun already" in invoke("execute", plan, "--bootstrap", "127.0.0.1:1", code=1)
    assert "nothing to pause" in invoke("pause", plan, code=1)


def test_a_plan_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    assert "No such file" in invoke("execute", plan, code=1)
    plan.write_text('{"version": 1, "partitions": []}')
    assert "partitions: " in invoke("execute", plan, code=1)


# --- documentation ----------------------------------------------------------------------------------------------------

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "planning.md").read_text()


def test_the_walk_of_the_documentation_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = re.findall(r"```sh\n(.*?)\n```", TEXT, re.DOTALL)
    (shown,) = re.findall(r"```\n(15 replicas.*?)```", TEXT, re.DOTALL)
    words = [str(ROOT / word) if word.endswith("/cluster.yaml") else word for word in shlex.split(line)]
    monkeypatch.chdir(tmp_path)
    said = invoke(*words[2:])
    without_time = re.sub(r"\([\d.]+ m?s to plan\)", "", shown)
    assert re.sub(r"\([\d.]+ m?s to plan\)", "", said).startswith(without_time)
    PlanFile.read(tmp_path / "plan.json")


def test_the_file_of_the_documentation_is_a_plan() -> None:
    (text,) = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)
    plan = PlanFile.parse(text, "planning.md")
    assert plan.details.leaders[0].replicas == (6, 1, 2)


def test_the_python_of_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code.replace("docs/examples", str(ROOT / "docs/examples")), "planning.md", "exec"), {})
    assert len(PlanFile.read(tmp_path / "plan.json").partitions) == 17, "two of them only change their order"


def test_a_plan_is_carried_out_without_numpy() -> None:
    program = (
        "import sys; sys.modules['numpy'] = None; from tierfetch.cli.main import main;"
        " main(['reassign', 'plan', '--cluster', 'nowhere'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert "numpy is not installed; the extra [model] brings it: pip install '.[model]'" in done.stderr


# --- others, and those that are not there ---------------------------------------------------------------------------


def test_a_plan_does_not_begin_beside_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [3, 2]}]}')
    fake = FakeCluster.of(ENTRIES, live={1, 2, 3})
    fake.others = {("u", 7): frozenset({3, 4})}

    async def state(_self: PlanCluster, _topics: list[str]) -> ClusterState:
        return fake.state()

    monkeypatch.setattr(PlanCluster, "state", state)
    said = invoke("execute", plan, code=1)
    assert "nothing was begun:\nu-7: another plan moves them on brokers [3], which this plan uses" in said
    assert "--share-brokers" in said
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


@pytest.mark.parametrize(
    ("outcome", "command"), [(Outcome.DONE, "resume"), (Outcome.CANCELLED, "cancel"), (Outcome.ROLLED_BACK, "rollback")]
)
def test_a_broker_that_kept_its_throttle_is_named_with_what_removes_it(
    journal: JournalFile, monkeypatch: pytest.MonkeyPatch, outcome: Outcome, command: str
) -> None:
    async def state(_self: PlanCluster, _topics: list[str]) -> ClusterState:
        return FakeCluster.of(ENTRIES).state()

    monkeypatch.setattr(PlanCluster, "state", state)
    journal.append(Event(event="ended", at_ms=1, outcome=outcome, left=(3,)))
    said = invoke("status", journal.path.with_name("plan.json"))
    assert "broker 3 was not alive: the replication throttle stays set there" in said
    assert f"once it is back, `tierfetch reassign {command} plan.json` removes it" in said
    journal.append(Event(event="ended", at_ms=2, outcome=outcome))
    assert "not alive" not in invoke("status", journal.path.with_name("plan.json"))


def test_status_says_what_is_left_and_how_to_go_on(journal: JournalFile, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCluster.of(ENTRIES)

    async def state(_self: PlanCluster, _topics: list[str]) -> ClusterState:
        return fake.state()

    monkeypatch.setattr(PlanCluster, "state", state)
    plan = journal.path.with_name("plan.json")
    said = invoke("status", plan).splitlines()
    goes_on = f"`tierfetch reassign resume {plan}` continues it"
    assert said == [
        f"moving, and no process carries it out: {goes_on}",
        "  before: 1 partition",
        "left: t-0 to be in sync on broker 3, without a limit",
    ]
    with journal.owned():
        assert invoke("status", plan).splitlines()[0] == "moving"
    journal.append(Event(event="ended", at_ms=1, outcome=Outcome.STOPPED))
    assert invoke("status", plan).splitlines()[0] == f"stopped: {goes_on}"
    fake.partitions["t", 0] = replace(fake.partitions["t", 0], replicas=(3, 2), leader=3)
    journal.append(Event(event="ended", at_ms=2, outcome=Outcome.DONE))
    assert invoke("status", plan).splitlines() == ["done", "  done: 1 partition"]
    assert json.loads(invoke("status", plan, "--json"))["left"] == []


def test_a_list_of_nothing_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tierfetch.cli.admin.reassign.run", lambda *_: [])
    assert invoke("list") == "no reassignment is under way\n"
    assert json.loads(invoke("list", "--json")) == []


async def test_configs_of_a_broker_that_is_not_alive_are_left_where_nobody_takes_them() -> None:
    class Refusing:
        async def send(self, _: object) -> None:
            raise KafkaError(ErrorCode.invalid_request, "Unexpected broker id")

    cluster = PlanCluster(Refusing())
    rate = ConfigValue(kind="broker", name="3", key="leader.replication.throttled.rate", value=None)
    await cluster.set_configs([rate])
    assert cluster.left == {3}


TAKEN_BACK = "the others were taken back: nothing moves"


@pytest.mark.parametrize("said", [None, TAKEN_BACK, "and these cannot be taken back:\nt-0: no"])
async def test_all_at_once_is_all_or_nothing(said: str | None) -> None:
    asked: list[object] = []

    class Controller:
        async def send(self, request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
            parts = request.topics[0].partitions
            asked.extend(part.replicas for part in parts)
            is_refused = said is not None and (parts[0].replicas or said != TAKEN_BACK)
            code = ErrorCode.invalid_replica_assignment if is_refused else ErrorCode.none
            answer = ReassignablePartitionResponse(partition_index=0, error_code=code, error_message="no")
            topic = ReassignableTopicResponse(name="t", partitions=(answer,))
            return AlterPartitionReassignmentsResponse(error_message=None, responses=(topic,))

    if said is not None:
        with pytest.raises(click.ClickException, match=f"t-0: no\n{said}"):
            await _begin_all(Controller(), ENTRIES)
        assert asked == [(3, 2), None]
    else:
        assert await _begin_all(Controller(), ENTRIES) == 1
        assert asked == [(3, 2)]
