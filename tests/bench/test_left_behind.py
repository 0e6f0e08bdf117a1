"""Nothing that a benchmark has started is left when it is killed: nothing that is frozen, and no child of a child."""

from __future__ import annotations

import ast
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil
import pytest

import tierfetch
from tierfetch.cli.local import poll

ROOT: Final = Path(tierfetch.__file__).parent
TIMEOUT_S: Final = 60.0
NODE: Final = "import signal, time; {ignoring}; print('ready', flush=True); time.sleep(600)"
INNER: Final = """
import sys, time
from pathlib import Path
from tierfetch.cli.local.processes import Processes
processes = Processes()
processes.start(1, [sys.executable, "-c", sys.argv[2]], Path(sys.argv[1]) / "node")
print(processes[1].pid, flush=True)
time.sleep(600)
"""
OUTER: Final = """
import sys
from pathlib import Path
from tierfetch.bench.lab.child import exit_code
base = Path(sys.argv[1])
exit_code([sys.executable, "-c", sys.argv[3], str(base), sys.argv[2]], base / "inner", 600.0)
"""
PROGRAMS: Final = {"Popen", "run", "call", "check_call", "check_output"}
POOLS: Final = {"ProcessPoolExecutor", "Pool"}
"""They wait for ever. Other processes of `multiprocessing` have a pipe, and end with it."""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals a child whose parent has died")
@pytest.mark.parametrize("state", ["running", "frozen", "ignores SIGTERM"])
def test_nothing_is_left_of_a_benchmark_that_is_killed(tmp_path: Path, state: str) -> None:
    ignoring = "signal.signal(signal.SIGTERM, signal.SIG_IGN)" if state == "ignores SIGTERM" else "pass"
    program = [sys.executable, "-c", OUTER, str(tmp_path), NODE.format(ignoring=ignoring), INNER]
    with subprocess.Popen(program) as outer:
        for _ in poll(TIMEOUT_S, "the node to be ready"):
            if (tmp_path / "node").exists() and "ready" in (tmp_path / "node").read_text():
                break
        started = psutil.Process(outer.pid).children(recursive=True)
        assert len(started) == 2, started
        if state == "frozen":
            psutil.Process(int((tmp_path / "inner").read_text())).send_signal(signal.SIGSTOP)
        outer.kill()
    for _ in poll(TIMEOUT_S, lambda: f"these to end: {started}"):
        if not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in started):
            break


@pytest.mark.parametrize("folder", ["bench", "cli"])
def test_no_process_is_started_that_could_be_left_behind(folder: str) -> None:
    lasting = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for call in starts(ast.parse(path.read_text()))
        if "end_with_parent()" not in ast.unparse(call)
    ]
    assert lasting == [], "preexec_fn=end_with_parent(), or so the initializer of workers"


def starts(tree: ast.Module) -> Iterator[ast.Call]:
    """Yield the calls that start processes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            module, _, name = ast.unparse(node.func).rpartition(".")
            if name in POOLS or (module == "subprocess" and name in PROGRAMS):
                yield node
