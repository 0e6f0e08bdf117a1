"""The runner of mutants: a killer kills, a survivor survives, what hangs or dies is told apart, no file is changed.

What loads mutants has to begin in a process that has not imported them: the examples run in one of their own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from .processes import Limits, run
from .programs import ROOT

pytestmark = pytest.mark.timeout(230)
"""Programs that start programs, on a machine that is busy."""

LIMITS = Limits(step_cpu_s=2.0, silent_s=3.0)

EXAMPLES = """
import json, sys
from pathlib import Path
from tierfetch.tests.sim.mutants import coverage
from tierfetch.tests.sim.mutants.coverage import Group, Reach, recorded, sources_of
from tierfetch.tests.sim.mutants.generate import mutants_of
from tierfetch.tests.sim.mutants.judging import Court, Effort
from tierfetch.tests.sim.mutants.processes import Limits
from tierfetch.tests.sim.mutants.programs import record_tests

examples = "tests/sim/mutants/examples"
folder = f"{examples}/mutated"
product = f"{folder}/product.py"
coverage.FOLDERS = (folder,)
coverage.sources_of.__defaults__ = ((folder,),)
units = {f"{examples}/checks.py": "as it is"}
group = Group("examples", units, lambda names, record, say, path: record_tests(names, say, path, record))
tests = recorded(group, Path(sys.argv[1]))
again = recorded(Group("examples", units, None), Path(sys.argv[1]))
sources = sources_of(("quorum/core",)) | {product: sources_of((folder,))[product]}
file = "quorum/core/election.py"
seeds = [Reach("seed 1", 1.0, {file: -1})]
court = Court(sources, {}, seeds, tests, Effort(limits=Limits(step_cpu_s=6.0)))
mutants = [*mutants_of(product, sources[product]), *mutants_of(file, sources[file])]
wanted = set(sys.argv[2:])
print(json.dumps({
    "reach": {each.name.partition("::")[2]: sorted(each.lines) for each in tests},
    "is_kept": again == tests,
    "verdicts": {each.id.partition("::")[2]: json.loads(court.judge(each).to_json())
                 for each in mutants if each.id.partition("::")[2] in wanted},
}))
"""


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the examples came to, judged once: each function is mutated in turn."""
    wanted = (
        "absolute::negate::0",
        "absolute::boundary::0",
        "sum_up_to::drop-assignment::0",
        "sum_up_to::drop-assignment::1",
        "never_called::boundary::0",
        "is_won::compare::0",
        "poll_prospective::negate::0",
    )
    command = [sys.executable, "-c", EXAMPLES, str(tmp_path_factory.mktemp("mutants")), *wanted]
    before = sources()
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert finished.returncode == 0, finished.stderr
    assert sources() == before
    content: dict[str, Any] = json.loads(finished.stdout)
    return content


def sources() -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted((ROOT / "tests/sim/mutants").rglob("*.py"))}


def test_what_each_test_reaches_is_recorded(judged: dict[str, Any]) -> None:
    product = ["tests/sim/mutants/examples/mutated/product.py"]
    assert judged["reach"] == {"test_absolute": product, "test_sum": product, "test_of_something_else": product}


def test_what_was_recorded_is_read_back(judged: dict[str, Any]) -> None:
    assert judged["is_kept"]


def test_a_killer_kills(judged: dict[str, Any]) -> None:
    unit = judged["verdicts"]["absolute::negate::0"]["unit_tests"]
    assert (unit["verdict"], unit["ran"], unit["reached_by"]) == ("convicted", 1, 2)
    assert unit["reason"].startswith("AssertionError")


def test_only_tests_that_reach_a_mutant_are_run(judged: dict[str, Any]) -> None:
    unit = judged["verdicts"]["absolute::boundary::0"]["unit_tests"]
    assert (unit["verdict"], unit["ran"], unit["reached_by"]) == ("survived", 2, 2)


def test_a_wrong_sum_is_told_from_one_that_does_not_end(judged: dict[str, Any]) -> None:
    wrong, endless = (judged["verdicts"][f"sum_up_to::drop-assignment::{number}"]["unit_tests"] for number in (0, 1))
    assert wrong["verdict"] == "convicted"
    assert endless["verdict"] == "hung"
    assert endless["by"].endswith("test_sum")


def test_what_nothing_reaches_is_not_run(judged: dict[str, Any]) -> None:
    verdict = judged["verdicts"]["never_called::boundary::0"]
    assert [verdict[side]["verdict"] for side in ("simulator", "unit_tests")] == ["unreached", "unreached"]


def test_a_seed_of_the_simulator_kills(judged: dict[str, Any]) -> None:
    sim = judged["verdicts"]["poll_prospective::negate::0"]["simulator"]
    assert sim["verdict"] in ("convicted", "hung")
    assert sim["by"] == "seed 1"


def test_what_ends_by_itself_is_done_and_its_lines_are_kept() -> None:
    ending = run(lambda say, directory: say({"begin": "a", "in": directory.is_dir()}), LIMITS)
    assert (ending.kind, ending.lines) == ("done", [{"begin": "a", "in": True}])


def test_an_endless_loop_is_busy() -> None:
    def program(say: Any, directory: Path) -> None:
        say({"begin": "a loop"})
        while True:
            pass

    ending = run(program, LIMITS)
    assert (ending.kind, ending.step) == ("busy", "a loop")


def test_steps_that_were_known_to_take_long_may() -> None:
    def program(say: Any, directory: Path) -> None:
        say({"begin": "long"})
        until_s = time.process_time() + 3.0
        while time.process_time() < until_s:
            pass

    assert run(program, Limits(step_cpu_s=2.0, known_cpu_s={"long": 1.0})).kind == "done"


def test_what_waits_for_ever_is_silent() -> None:
    def program(say: Any, directory: Path) -> None:
        say({"begin": "a wait"})
        signal.pause()

    ending = run(program, LIMITS)
    assert (ending.kind, ending.step) == ("silent", "a wait")


def test_what_dies_is_told_apart() -> None:
    ending = run(lambda say, directory: os.kill(os.getpid(), signal.SIGKILL), LIMITS)
    assert (ending.kind, ending.status) == ("died", -signal.SIGKILL)


def test_an_exception_is_reported() -> None:
    def program(say: Any, directory: Path) -> None:
        raise ImportError("no such name")

    ending = run(program, LIMITS)
    assert ending.lines == [{"end": "program", "cpu_s": 0.0, "failure": "ImportError: no such name"}]


def test_memory_is_limited() -> None:
    def program(say: Any, directory: Path) -> None:
        say({"bytes": len(bytearray(64 << 30))})

    ending = run(program, Limits(memory_bytes=32 << 30))
    assert ending.lines[-1]["failure"].startswith("MemoryError")


def test_all_steps_together_have_a_limit() -> None:
    def program(say: Any, directory: Path) -> None:
        number = 0
        while number := number + 1:
            say({"begin": f"{number}"})
            sum(range(1_000_000))

    ending = run(program, Limits(total_cpu_s=1.0))
    assert ending.is_cut
    assert ending.kind == "done"


def test_children_of_a_program_end_with_it() -> None:
    def program(say: Any, directory: Path) -> None:
        say({"pid": subprocess.Popen(["sleep", "1000"]).pid})

    pid = run(program, LIMITS).lines[0]["pid"]
    deadline_s = time.monotonic() + 10
    while time.monotonic() < deadline_s and Path(f"/proc/{pid}/cmdline").exists():
        if not Path(f"/proc/{pid}/cmdline").read_bytes():  # a zombie, until somebody waits for it
            break
        time.sleep(0.01)
    else:
        assert not Path(f"/proc/{pid}").exists()
