"""A way to run a broker is better only if every round says so; and the probe runs in any interpreter."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tierfetch.bench.pythons.command import IN_BROKER, environment, run
from tierfetch.bench.pythons.ways import PROBE, Value, Verdict, Way, name_of, paired, values_of, verdict


@pytest.mark.parametrize(
    ("quantity", "ratios", "expected"),
    [
        ("throughput", [1.2, 1.06], Verdict.BETTER),
        ("throughput", [1.2, 1.04], Verdict.SAME),
        ("throughput", [0.5, 0.9], Verdict.WORSE),
        ("throughput", [0.5, 1.5], Verdict.SAME),
        ("CPU", [0.5, 0.9], Verdict.BETTER),
        ("start to serving", [1.2, 1.06], Verdict.WORSE),
        ("share of the bare loops", [0.5, 0.9], Verdict.WORSE),
        ("CPU", [0.5], Verdict.TOO_FEW),
        ("CPU", [], Verdict.FAILS),
    ],
)
def test_a_verdict_needs_every_round(quantity: str, ratios: list[float], expected: Verdict) -> None:
    assert verdict(quantity, ratios) is expected


def test_a_round_that_one_of_them_lacks_is_compared_with_nothing() -> None:
    assert paired({0: 3.0, 1: 8.0}, {1: 4.0, 2: 1.0}) == [2.0]


def test_the_probe_says_what_this_interpreter_is() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    assert name_of(done.stdout, is_uvloop=False).startswith(f"Python {platform.python_version()}")


def test_a_way_is_named_after_what_is_special_about_it() -> None:
    probed = json.dumps({"version": "3.14.0", "is_free_threaded": True, "has_jit": True})
    assert name_of(probed, is_uvloop=True) == "Python 3.14.0, free-threaded, JIT, uvloop"


def test_the_figures_of_one_system_are_taken() -> None:
    figure = {"benchmark": "b", "case": "c", "quantity": "q", "unit": "s", "values": [3.0, 1.0, 2.0]}
    document = json.dumps({"figures": [{**figure, "system": "tierfetch"}, {**figure, "system": "bare loops"}]})
    assert values_of(document, "tierfetch") == [Value("b: c", "q", "s", 2.0)]


def test_only_uvloop_has_the_folder_on_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "before")
    assert environment(Way("standard", Path("python"), is_uvloop=False))["PYTHONPATH"] == "before"
    assert environment(Way("uvloop", Path("python"), is_uvloop=True))["PYTHONPATH"] == f"{IN_BROKER}:before"


def test_what_fails_says_why(tmp_path: Path) -> None:
    assert run([sys.executable, "-c", "pass"], {}, tmp_path / "output") is None
    failure = run([sys.executable, "-c", "import sys; sys.exit('no such loop')"], {}, tmp_path / "output")
    assert failure == "exit code 1: no such loop"
