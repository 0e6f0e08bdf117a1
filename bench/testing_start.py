"""The start of a test's cluster (`tierfetch.testing`): from nothing to a broker that serves, in a warm interpreter.

`python -m bench.testing_start [RUNS]` prints the shortest, median and longest of them, and the first, which imports.
"""

from __future__ import annotations

import statistics
import sys
import time


def start_s(brokers: int) -> float:
    """Return the seconds until all brokers serve."""
    began_s = time.perf_counter()
    from tierfetch.testing import ClusterOptions, InProcessCluster

    with InProcessCluster(ClusterOptions(brokers=brokers)):
        return time.perf_counter() - began_s


def main(runs: int = 20) -> None:
    for brokers in (1, 3):
        first, *rest = (start_s(brokers) for _ in range(runs + 1))
        low, middle, high = min(rest), statistics.median(rest), max(rest)
        print(f"{brokers} brokers, {runs} starts: min {low:.3f} s, median {middle:.3f} s, max {high:.3f} s", end="")
        print(f" (first, with imports where there are any: {first:.3f} s)")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
