"""Fuzz every target in turn, each in a process of its own, for a share of SECONDS.

    python -m tierfetch.tests.fuzz.all_targets SECONDS

Ends with 1 if a target failed. Inputs that reach new code are kept for the next run in `.fuzz/` of this checkout.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from tierfetch.tests.fuzz.targets import TARGETS

KEPT: Final = Path(__file__).parents[2] / ".fuzz"
GUIDED: Final = "tierfetch.tests.fuzz.guided"
SHOWN_LINES: Final = 60


def fuzz(name: str, seconds: int) -> bool:
    """Fuzz one target, and say how far it came. Return whether it held."""
    new_inputs = KEPT / name
    new_inputs.mkdir(parents=True, exist_ok=True)
    command = (sys.executable, "-m", GUIDED, name, str(new_inputs), f"-max_total_time={seconds}")
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    lines = (done.stdout + done.stderr).splitlines()
    numbers = dict(line.removeprefix("stat::").split(":", 1) for line in lines if line.startswith("stat::"))
    shown = {
        key: numbers.get(key, "?").strip() for key in ("number_of_executed_units", "new_units_added", "peak_rss_mb")
    }
    inputs, new, memory = shown.values()
    sys.stdout.write(f"{name}: {inputs} inputs, {new} of them reached new code, {memory} MiB at most\n")
    if done.returncode:
        sys.stdout.write("\n".join(lines[-SHOWN_LINES:]) + "\n")
    return done.returncode == 0


def main(seconds: int) -> int:
    held = [fuzz(name, max(1, seconds // len(TARGETS))) for name in TARGETS]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
