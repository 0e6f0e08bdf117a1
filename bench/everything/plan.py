"""What `python -m bench all` runs: the benchmarks with a table in the docs, of a size that fits. Pure.

| what happens | what follows |
|---|---|
| an entry ends | the next one begins |
| an entry takes `LATE_FACTOR` times its estimate and `LATE_S`, or the time is over | it is stopped, and has failed |
| what is left of the time is less than an entry's estimate | it is left out; shorter ones may still begin |

The estimates are rough, for two cores that do nothing else; the command says what each took. `model` is not among them:
it takes 25 minutes by itself, and its shorter forms say nothing; `witness` compares, and measures nothing. Nor are
`groups`, `transactions` and `coordinators`: most of their time is sessions and warm-ups that no option makes shorter.
`replace` is a short form of `replacement`, which spends its time on loading; `pythons` runs some of these again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

BUDGET_S: Final = 1800.0
LATE_FACTOR: Final = 3.0
LATE_S: Final = 120.0
NOT_PLANNED: Final = frozenset(
    {"all", "model", "witness", "groups", "transactions", "coordinators", "pythons", "replacement"}
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A benchmark with its options, how long it takes, and whether Apache Kafka may run beside it."""

    name: str
    options: str
    estimate_s: float
    has_peer: bool = True
    is_suite: bool = False

    def arguments(self, against: str) -> list[str]:
        """Return what stands after `python -m bench`, but for the file of figures."""
        named = [self.name, *self.options.split()]
        if self.has_peer:
            return [*named, "--against", against]
        return named if self.is_suite else [*named, "--against", "nothing"]


def _alone(name: str, options: str, estimate_s: float) -> Entry:
    return Entry(name, options, estimate_s, has_peer=False)


def _suite(name: str, options: str, estimate_s: float) -> Entry:
    return Entry(name, options, estimate_s, has_peer=False, is_suite=True)


PLAN: Final = (
    Entry("fetch", "--size-mb 200 --rounds 4 --connections 1 --connections 4", 125, is_suite=True),
    _suite("fetch-s3", "--size-mb 300 --rounds 2 --connections 4 --probes 4", 60),
    Entry("replication", "--size-mb 400 --runs 1 --rounds 3", 120),
    Entry("produce", "--size-mb 100 --runs 2", 70),
    Entry("replace", "--size-mb 200 --runs 1", 130),
    Entry("consume", "--size-mb 200 --runs 3", 50),
    Entry("latency", "--size-mb 200 --runs 1", 60),
    _suite("copying", "--tiers s3 --size-mb 200 --rounds 1 --alone-s 5", 40),
    Entry("kill", "--runs 1", 80),
    Entry("tls", "--size-mb 100 --runs 2", 70),
    Entry("startup", "--runs 2", 60),
    _alone("load", "", 20),
    _alone("ledger", "--runs 1", 30),
    _alone("snapshots", "--runs 1", 120),
    _alone("expiry", "--runs 1", 90),
    _alone("producers", "--runs 2", 20),
    _alone("images", "--runs 1", 40),
    _alone("election", "", 150),
    _alone("append", "--runs 1", 20),
    _alone("failover", "--runs 1", 40),
    _alone("controller", "--runs 1", 60),
    _alone("simulation", "--runs 1", 50),
    _alone("planner", "--runs 1", 40),
    _alone("model-speed", "--runs 1", 20),
    _suite("curves", "--again --against nothing --counts 1 --counts 100 --size-mb 20 --requests 2000", 40),
    _suite("partitions", "--count 200 --records-per-s 10 --steady-s 10", 60),
    _suite("soak", "--minutes 1", 75),
    _suite("spark", "table --size-mb 100 --runs 1", 60),
)


def total_s(entries: Sequence[Entry]) -> float:
    return sum(entry.estimate_s for entry in entries)


def time_limit_s(entry: Entry, elapsed_s: float, budget_s: float) -> float | None:
    """Return how long an entry may take that would begin now; None if it must not begin."""
    left_s = budget_s - elapsed_s
    if left_s < entry.estimate_s:
        return None
    return min(left_s, entry.estimate_s * LATE_FACTOR + LATE_S)


def progress_line(entries: Sequence[Entry], number: int, elapsed_s: float) -> str:
    """Return the line that says which entry begins, and how much is still to come."""
    entry = entries[number]
    return (
        f"[{number + 1}/{len(entries)}] {minutes(elapsed_s)} min passed, about {minutes(total_s(entries[number:]))} to"
        f" come: {entry.name} {entry.options}".rstrip()
    )


def minutes(seconds: float) -> str:
    """Return minutes and seconds, such as 4:05."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
