"""Applications in a simulated cluster: `tierfetch.testing.simulated`, what it refuses, how it reports, and its page."""

from __future__ import annotations

import asyncio
import importlib
import os
import random
import subprocess
import sys
import threading
import time
import uuid
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from tierfetch.protocol.errors import OperatorError
from tierfetch.sim.faults.schedule import Fault, FaultKind, Schedule
from tierfetch.testing import SimulatedFailure, SimulatedNode, simulated

pytestmark = pytest.mark.simulated

ROOT = Path(__file__).resolve().parents[2]
SHORT = {"faults_s": 5, "settle_s": 1}
QUIET = {"faults": (), **SHORT}
DOZEN = range(12)


async def send(node: SimulatedNode, topic: str, *values: bytes, partition: int | None = None) -> None:
    async with AIOKafkaProducer(bootstrap_servers=node.bootstrap_servers, enable_idempotence=True) as producer:
        for value in values:
            await producer.send_and_wait(topic, value, partition=partition)


def crash(
    at_ms: int, kind: FaultKind = FaultKind.PROCESS_CRASH, duration_ms: int = 500, host: str = "app-1"
) -> Schedule:
    return Schedule(8_000, (Fault(at_ms, kind, (host,), duration_ms),))


def test_what_an_application_finds_is_simulated_and_the_same_each_time() -> None:
    """Time of day, time that passes, chance and names are the world's; a seed gives them again."""
    found: list[tuple] = []

    async def application(node: SimulatedNode) -> None:
        began_s = time.monotonic()
        await asyncio.sleep(20)
        found.append((time.monotonic() - began_s, time.time(), datetime.now(), time.strftime("%H:%M")))  # noqa: DTZ005
        found.append((random.random(), uuid.uuid4(), os.urandom(4), random.SystemRandom().random()))

    runs = [simulated(application, seed=3, **QUIET) for _ in range(2)]
    assert found[:2] == found[2:]
    (passed_s, time_s, moment, text), _ = found[:2]
    assert passed_s == pytest.approx(20)
    assert abs(time_s - 1_750_000_020) < 10
    assert (str(moment)[:16], text) == ("2025-06-15 15:07", "15:07")
    assert runs[0].digest == runs[1].digest
    assert runs[0].virtual_s > 20


def test_how_many_producers_there_were_before_changes_nothing() -> None:
    """aiokafka counts them in their names: a tenth one has a longer name than the first, and sends more bytes."""

    async def application(node: SimulatedNode) -> None:
        for _ in range(6):
            await send(node, "t", b"x")

    digests = {simulated(application, seed=3, topics={"t": 1}, **QUIET).digest for _ in range(2)}
    assert len(digests) == 1


def test_the_world_outside_is_as_before() -> None:
    state, before = random.getstate(), (time.time, time.monotonic, threading.Thread.start, os.urandom, datetime)

    async def application(node: SimulatedNode) -> None:
        random.random()

    simulated(application, seed=1, **QUIET)
    assert random.getstate() == state
    assert (time.time, time.monotonic, threading.Thread.start, os.urandom, datetime) == before
    assert datetime.now().year >= 2025  # noqa: DTZ005
    assert hash(TopicPartition("t", 1)) == hash(("t", 1))


def leaves_by_thread() -> None:
    threading.Thread(target=print).start()


def leaves_by_process() -> None:
    subprocess.run(["true"], check=False)


def leaves_by_file() -> None:
    Path("somewhere").write_text("text")


def leaves_by_socket() -> None:
    import socket

    socket.create_connection(("127.0.0.1", 9))


def sleeps() -> None:
    time.sleep(0.01)


@pytest.mark.parametrize(
    ("leave", "what"),
    [
        (leaves_by_thread, "a thread that is started"),
        (leaves_by_process, "a process that is started"),
        (leaves_by_file, "a file that is written"),
        (leaves_by_socket, "a name that is looked up|a socket that connects"),
        (sleeps, r"time\.sleep \(await asyncio\.sleep instead\)"),
        (lambda: uuid.uuid1(), "uuid1"),
    ],
)
def test_what_would_leave_the_world_is_refused_also_where_the_error_is_swallowed(leave, what: str) -> None:
    async def application(node: SimulatedNode) -> None:
        with suppress(RuntimeError):  # as a library would
            leave()

    with pytest.raises(SimulatedFailure, match=rf"({what}).* is not simulated, and app-1 reached for it"):
        simulated(application, seed=1, **QUIET)


def test_an_application_may_import_what_has_not_been_compiled_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_in_a_world.py").write_text("ANSWER = 42\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)

    async def application(node: SimulatedNode) -> None:
        importlib.import_module("imported_in_a_world")

    simulated(application, seed=1, **QUIET)
    assert list((tmp_path / "__pycache__").glob("imported_in_a_world.*.pyc"))


def test_executors_are_refused() -> None:
    async def application(node: SimulatedNode) -> None:
        await asyncio.to_thread(print)

    with pytest.raises(SimulatedFailure, match="run_in_executor: a thread is not simulated, and app-1 reached for it"):
        simulated(application, seed=1, **QUIET)


def test_a_process_is_started_again_with_what_it_has_on_its_disk() -> None:
    """Killed, it has lost its memory, and nothing of its `finally` blocks has run; its disk has what was synced."""
    runs: list[tuple[int, bytes | None, bytes | None]] = []
    left: list[int] = []

    async def application(node: SimulatedNode) -> None:
        runs.append((node.run, await node.disk.read("kept"), await node.disk.read("unsynced")))
        await node.disk.write("kept", b"%d" % node.run)
        await node.disk.append("log", b"x")
        await node.disk.append("unsynced", b"y", sync=False)
        try:
            await asyncio.sleep(2 if node.run == 2 else 3600)
        finally:
            left.append(node.run)

    schedule = crash(2_000, FaultKind.MACHINE_CRASH)
    result = simulated(application, seed=2, faults=schedule, **SHORT)
    assert runs[0] == (1, None, None)
    assert runs[1][:2] == (2, b"1")
    assert left[0] == 2, "what is killed does not clean up while the world runs"
    assert result.starts == {"app-1": 2}


def test_a_restart_in_order_lets_the_application_close() -> None:
    left: list[int] = []

    async def application(node: SimulatedNode) -> None:
        try:
            await asyncio.sleep(3600 if node.run == 1 else 0)
        finally:
            left.append(node.run)

    simulated(application, seed=2, faults=crash(1_000, FaultKind.RESTART, 0), **SHORT)
    assert left == [1, 2]


def test_a_group_takes_over_the_partitions_of_a_member_that_is_killed() -> None:
    seen: dict[int, list[int]] = {1: [], 2: []}

    async def application(node: SimulatedNode) -> None:
        async with AIOKafkaConsumer(
            "t", group_id="g", bootstrap_servers=node.bootstrap_servers, auto_offset_reset="earliest"
        ) as consumer:
            async for record in consumer:
                seen[node.instance].append(int(record.value))

    async def drive(node: SimulatedNode) -> None:
        for number in DOZEN:
            await send(node, "t", b"%d" % number, partition=number % 2)
            await asyncio.sleep(2)

    async def check(node: SimulatedNode) -> None:
        assert {*seen[1], *seen[2]} == set(DOZEN)

    schedule = crash(5_000, duration_ms=3_000)
    simulated(application, seed=5, faults=schedule, topics={"t": 2}, instances=2, drive=drive, check=check, settle_s=20)
    assert seen[1]
    assert seen[2]


def test_transactions_are_whole_though_their_producer_is_killed() -> None:
    async def application(node: SimulatedNode) -> None:
        servers, identity = node.bootstrap_servers, "t-1"
        async with AIOKafkaProducer(bootstrap_servers=servers, transactional_id=identity) as producer:
            for number in range(3):
                async with producer.transaction():
                    await producer.send("a", b"%d-%d" % (node.run, number), partition=0)
                    await asyncio.sleep(1.5)
                    await producer.send("b", b"%d-%d" % (node.run, number), partition=0)

    async def check(node: SimulatedNode) -> None:
        first, second = [[record.value for record in await node.read_all(topic)] for topic in ("a", "b")]
        assert first == second
        assert first[-3:] == [b"2-0", b"2-1", b"2-2"]
        everything = await node.read_all("a", isolation_level="read_uncommitted")
        assert len(everything) > len(first), "no transaction was aborted"

    result = simulated(
        application, seed=4, faults=crash(3_000), topics={"a": 1, "b": 1}, check=check, faults_s=8, settle_s=20
    )
    assert result.starts == {"app-1": 2}


def test_an_error_of_kafka_ends_the_process_and_any_other_the_run() -> None:
    async def exits(node: SimulatedNode) -> None:
        if node.run < 3:
            raise KafkaError("as when no broker answers")

    assert simulated(exits, seed=1, **QUIET).starts == {"app-1": 3}

    async def fails(node: SimulatedNode) -> None:
        await asyncio.sleep(1)
        raise ZeroDivisionError("not foreseen")

    with pytest.raises(SimulatedFailure, match=r"app-1: ZeroDivisionError: not foreseen\n(.*\n)*.*in fails"):
        simulated(fails, seed=1, **QUIET)


def test_a_failure_is_shortened_to_the_faults_that_it_needs_and_can_be_repeated() -> None:
    async def application(node: SimulatedNode) -> None:
        assert node.run == 1, "cannot start twice"
        await asyncio.sleep(6)

    faults = (
        Fault(500, FaultKind.SLOW_LINK, ("broker-1", "broker-2"), 1_000, 20),
        Fault(1_000, FaultKind.MACHINE_CRASH, ("app-1",), 900),
        Fault(2_000, FaultKind.STORE_OUTAGE, (), 500),
    )
    with pytest.raises(SimulatedFailure) as failed:
        simulated(application, seed=9, faults=Schedule(4_000, faults), **SHORT)
    text = str(failed.value)
    assert [fault.kind for fault in failed.value.schedule.faults] == [FaultKind.PROCESS_CRASH]
    assert "with 1 of its 3 faults" in text
    assert "process crash app-1" in text
    again = text.partition("Schedule.from_json('")[2].partition("')")[0]
    assert Schedule.from_json(again) == failed.value.schedule


def test_a_run_that_is_not_the_same_again_is_reported_as_such() -> None:
    outlives: list[int] = []

    async def application(node: SimulatedNode) -> None:
        outlives.append(1)
        await asyncio.sleep(len(outlives) / 10)
        raise ValueError("no")

    with pytest.raises(SimulatedFailure, match="It ran differently when it was repeated"):
        simulated(application, seed=9, faults=crash(3_000), **SHORT)


def test_an_application_that_does_not_end_is_a_failure() -> None:
    async def application(node: SimulatedNode) -> None:
        await asyncio.sleep(3600)

    with pytest.raises(SimulatedFailure, match="TimeLimitError: the run did not end within 20 virtual seconds"):
        simulated(application, seed=1, limit_s=20, **QUIET)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"faults": ["earthquake"]}, r"faults \['earthquake'\] are none that an application can be tested under"),
        ({"faults": ["wipe"]}, r"faults \['wipe'\] are none"),
        ({"faults": Schedule(100, (Fault(1, FaultKind.BIT_ROT, ("broker-1",), 9),))}, r"faults \['bit rot'\] are none"),
        ({"topics": {"t": 0}}, r"topics \{'t': 0\}: a topic has one partition at least"),
        ({"instances": 0}, "instances is 0: an application runs on one host at least"),
        ({"faults_s": 1}, "faults_s is 1: give faults 5 virtual seconds at least"),
    ],
)
def test_what_cannot_be_run_is_refused(options: dict[str, object], message: str) -> None:
    async def application(node: SimulatedNode) -> None:
        """Never called."""

    with pytest.raises(OperatorError, match=message):
        simulated(application, seed=1, **options)


@pytest.mark.timeout(600)
def test_a_seed_is_the_same_whatever_texts_hash_to() -> None:
    """Two processes with different PYTHONHASHSEED, faults, a group, and several topics."""
    program = Path(__file__).with_name("hashed_application.py")
    digests = set()
    for number in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": number}
        done = subprocess.run(
            [sys.executable, str(program)], capture_output=True, text=True, timeout=280, env=environment, check=True
        )
        digests.add(done.stdout)
    assert len(digests) == 1, digests


def page() -> str:
    text = (ROOT / "docs/simulate-your-app.md").read_text()
    (block,) = [part.partition("```")[0] for part in text.split("```python\n")[1:] if part.startswith("import asyncio")]
    return block


def run_pytest(folder: Path, *arguments: str) -> str:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-p", "tierfetch.testing.pytest_plugin", "-q", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=280, env=ours).stdout


@pytest.mark.timeout(300)
def test_the_page_is_executable(tmp_path: Path) -> None:
    (tmp_path / "test_shop.py").write_text(page())
    printed = run_pytest(tmp_path, "--tierfetch-seeds", "1")
    assert "4 passed" in printed, printed


def test_the_marker_runs_seeds_and_prints_the_command_that_repeats_a_failure(tmp_path: Path) -> None:
    text = "import pytest\n\n@pytest.mark.tierfetch_seeds(3)\ndef test_it(seed):\n    assert seed != 2\n"
    (tmp_path / "test_it.py").write_text(text)
    printed = run_pytest(tmp_path)
    assert "1 failed, 2 passed" in printed, printed
    assert "pytest 'test_it.py::test_it' --tierfetch-seed 2\n" in printed
    assert "1 failed in" in run_pytest(tmp_path, "--tierfetch-seed", "2")
    assert "8 passed" in run_pytest(tmp_path, "--tierfetch-seeds", "9")
    (tmp_path / "test_it.py").write_text(text.replace("(3)", "(0)"))
    assert "the number of seeds, 1 at least" in run_pytest(tmp_path)
    (tmp_path / "test_it.py").write_text(text.replace("(seed)", "()"))
    assert "a test marked tierfetch_seeds takes the argument seed" in run_pytest(tmp_path)
