"""CI's program on suites of its own, real runs of pytest: one fails once, one always, one hangs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tierfetch.tests.ci.run import Place, run_suite, run_suites
from tierfetch.tests.ci.suites import Suite, suites

PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "pytest_timeout")
FAILS_ONCE = """
from pathlib import Path

def test_sometimes():
    first = not Path("ran").exists()
    Path("ran").touch()
    assert not first
"""
INHERITS = """
import pytest
from other import Shared

class TestOne(Shared):
    pass
"""
SHARED = """
import pytest

class Shared:
    @pytest.mark.parametrize("value", ["it's::$ä", b"\\x00"])
    def test_inherited(self, value):
        assert False
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # most of a run's time otherwise
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    return Place(tmp_path, PYTEST, total_limit_s=60.0, aim_s=60.0, grace_s=5.0)


def suite(place: Place, limit_s: float = 60.0, **modules: str) -> Suite:
    for name, text in modules.items():
        (place.root / f"{name}.py").write_text(text)
    return Suite("fake", (*PYTEST, *(f"{name}.py" for name in modules if name.startswith("test"))), limit_s)


def test_a_test_that_fails_once_is_flaky_and_ci_green(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    fake = suite(place, test_some=FAILS_ONCE + "\ndef test_always_passes():\n    pass\n")
    assert run_suites([fake], place) == 0
    *_, flaky, reason, closing = capfd.readouterr().out.splitlines()
    assert flaky == ("FLAKY in fake (failed, then passed alone: a bug to be found): test_some.py::test_sometimes")
    assert reason.strip()
    assert closing == "2 passed, 0 failed, 0 skipped"


def test_a_test_that_always_fails_is_red(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_suites([suite(place, test_some="def test_never():\n    assert False\n")], place) == 1
    *_, failed, reason, closing = capfd.readouterr().out.splitlines()
    assert failed == "FAILED in fake: test_some.py::test_never"
    assert reason.strip() == "assert False"
    assert closing == "0 passed, 1 failed, 0 skipped"


def test_any_test_is_found_again_by_its_id(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    outcome = run_suite(suite(place, test_some=INHERITS, other=SHARED), place)
    assert len(outcome.failed) == 2
    again = [line for line in capfd.readouterr().out.splitlines() if line.startswith("FAILED test_some.py::TestOne::")]
    assert len(again) == 4


def test_a_suite_that_hangs_is_stopped_and_red(place: Place) -> None:
    fake = suite(place, limit_s=3.0, test_some="import time\n\ndef test_hangs():\n    time.sleep(1000)\n")
    outcome = run_suite(fake, place)
    assert outcome.complaints == ("stopped after its limit of 3 s",)


def test_a_suite_that_ignores_the_interrupt_is_killed(place: Place) -> None:
    deaf = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(1000)"
    outcome = run_suite(
        Suite("deaf", (sys.executable, "-c", deaf), 2.0),
        Place(place.root, PYTEST, total_limit_s=60.0, aim_s=60.0, grace_s=0.2),
    )
    assert outcome.is_red


def test_a_suite_without_tests_is_red(place: Place) -> None:
    assert run_suite(suite(place, test_some="VALUE = 1\n"), place).is_red


def test_a_module_that_cannot_be_collected_is_red(place: Place) -> None:
    outcome = run_suite(suite(place, test_some="import nowhere\n", test_other="def test_fine():\n    pass\n"), place)
    assert outcome.complaints[0].startswith("pytest ended with status 2")


def test_what_a_suite_leaves_running_is_ended_with_it(place: Place) -> None:
    leaver = "import subprocess, sys; print(subprocess.Popen(['sleep', '1000']).pid, file=open('left', 'w'))"
    outcome = run_suite(Suite("leaver", (sys.executable, "-c", leaver), 20.0, runs_tests=False), place)
    assert not outcome.is_red
    left = Path("/proc", (place.root / "left").read_text().strip(), "cmdline")
    assert not left.exists() or left.read_bytes() == b"", "a zombie has no command line"


def test_no_suite_begins_when_the_time_for_all_is_over(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    late = Place(place.root, PYTEST, total_limit_s=0.0, aim_s=0.0)
    assert run_suites([Suite("late", (sys.executable, "-c", ""), 20.0, runs_tests=False)], late) == 1
    assert "FAILED late: not begun: the time for all suites was over" in capfd.readouterr().out


def test_a_suite_that_needs_its_whole_time_is_left_out_where_less_is_left(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    short = Place(place.root, PYTEST, total_limit_s=60.0, aim_s=10.0)
    long = Suite("long", (sys.executable, "-c", "raise SystemExit(1)"), 20.0, runs_tests=False, needs_time=True)
    assert run_suites([long], short) == 0
    assert "skipped in long: not begun" in capfd.readouterr().out
    assert run_suites([replace(long, limit_s=5.0)], short) == 1


ENDINGS = """
import pytest

def test_skips():
    pytest.skip("no Java here")

@pytest.mark.xfail
def test_is_known_to_fail():
    assert False

@pytest.fixture
def torn_down_badly():
    yield
    raise ValueError

def test_fails_twice_over(torn_down_badly):
    assert False
"""


def test_every_ending_is_counted_once(place: Place) -> None:
    outcome = run_suite(suite(place, test_some=ENDINGS), place)
    assert outcome.passed == 1, "one that is expected to fail, and does"
    assert outcome.failed == ("test_some.py::test_fails_twice_over",)
    assert outcome.skipped == {"test_some.py::test_skips": "no Java here"}
    assert outcome.complaints == ("skipped here: test_some.py::test_skips: no Java here",)


def test_every_suite_is_a_target_of_make() -> None:
    root = Path(__file__).resolve().parents[2]
    targets = {line.split(":")[0] for line in (root / "Makefile").read_text().splitlines() if ": " in line}
    for each in suites(Random(1)):
        program, _, target, *_ = each.command
        assert program == "make"
        assert target in targets
    must_run = [each.decides and not each.needs_time for each in suites(Random(1))]
    assert must_run == sorted(must_run, reverse=True), "what decides must have run when the time for all is over"


def test_it_starts_before_anything_is_installed() -> None:
    root = Path(__file__).resolve().parents[2]
    bare = subprocess.run([sys.executable, "-S", "-m", "tests.ci", "--help"], cwd=root, capture_output=True, check=True)
    assert b"check, test, commands, faults" in bare.stdout


def test_a_suite_that_only_reports_leaves_ci_green(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    fake = replace(suite(place, test_some="def test_always():\n    raise AssertionError\n"), decides=False)
    assert run_suites([fake], place) == 0
    assert "failed, only reports" in capfd.readouterr().out
    assert run_suites([replace(fake, decides=True)], place) == 1
