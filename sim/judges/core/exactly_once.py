"""Whether a group of workers did everything exactly once: what it read, its committed offsets, and what it wrote. Pure.

    input, below the committed offset --> wanted     output, read committed, each traced back by `input_of` --> found

| anomaly          | found when                                                                                       |
|------------------|--------------------------------------------------------------------------------------------------|
| lost work        | a record below the committed offset has no output: its transaction, or a part of it, is missing   |
| work done twice  | one record has two outputs                                                                       |
| work ahead       | a record at or above the committed offset has an output: it will be done again                   |
| split transaction | of one transaction some records are shown to read-committed readers, and some are not            |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from .acknowledged_writes import Anomaly, FinalLog
from .history import History, Outcome

SHOWN_MAX: Final = 8
"""Values that an anomaly names."""


def check_work(
    group: str,
    inputs: Iterable[FinalLog],
    committed: Mapping[str, int],
    input_of: Callable[[int], int],
    shown: Iterable[int],
) -> list[Anomaly]:
    """`committed` offsets by input partition, `shown` the values that read-committed readers find in all outputs."""
    counts = Counter(map(input_of, shown))
    wanted: dict[int, str] = {}
    ahead: dict[int, str] = {}
    for log in inputs:
        for offset, value in log.values.items():
            kind = wanted if offset < committed.get(log.partition, 0) else ahead
            kind[value] = f"{log.partition}@{offset}"
    return [
        Anomaly(kind, group, f"{len(found)} records, the first of them {found[:SHOWN_MAX]}")
        for kind, found in (
            ("lost work", [where for value, where in wanted.items() if not counts[value]]),
            ("work done twice", [where for value, where in (wanted | ahead).items() if counts[value] > 1]),
            ("work ahead", [where for value, where in ahead.items() if counts[value]]),
        )
        if found
    ]


def check_atomicity(history: History, partitions: Iterable[str], shown: Iterable[int]) -> list[Anomaly]:
    """All records that a transaction has in the log for certain are shown, or none of them is."""
    there, wanted = set(shown), set(partitions)
    parts: dict[int, dict[bool, list[str]]] = {}
    for send in history.sends:
        if send.transaction is not None and send.partition in wanted and send.outcome is Outcome.OK:
            found = parts.setdefault(send.transaction, {})
            for value in send.values:
                found.setdefault(value in there, []).append(f"{value} in {send.partition}")
    return [
        Anomaly(
            "split transaction",
            f"transaction {number}",
            f"shown are {found[True][:SHOWN_MAX]}, and not {found[False][:SHOWN_MAX]}",
        )
        for number, found in sorted(parts.items())
        if len(found) > 1
    ]
