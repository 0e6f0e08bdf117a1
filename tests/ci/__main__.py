"""`python3 -m tests.ci [SUITE ...]`, in the checkout: all suites, or those that are named."""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from .run import Place, run_suites
from .suites import AIM_S, TOTAL_LIMIT_S, suites


def main() -> int:
    every = {suite.name: suite for suite in suites(random.SystemRandom())}
    parser = argparse.ArgumentParser(prog="python3 -m tests.ci", description="Run what CI runs, and decide.")
    parser.add_argument("suite", nargs="*", help=f"one of {', '.join(every)}; all of them if none is named")
    names = parser.parse_args().suite or list(every)
    if unknown := [name for name in names if name not in every]:
        parser.error(f"no such suite: {', '.join(unknown)}; there are {', '.join(every)}")
    root = Path(__file__).resolve().parents[2]
    place = Place(root, (str(root / ".venv" / "bin" / "python"), "-m", "pytest", "-q"), TOTAL_LIMIT_S, AIM_S)
    return run_suites([every[name] for name in names], place)


if __name__ == "__main__":
    sys.exit(main())
