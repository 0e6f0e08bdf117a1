"""The model's constants from the calibration scenarios, each read off what it isolates. Pure.

With T the median seconds to the ISR, n partitions (the cluster's own among them), b bytes copied (the formula is in
`model/calibration.py`):

    scenario      what it isolates
    ------------  ------------------------------------------------------------------------------------------
    c-small       start_s: nearly nothing is set up and copied
    c-many        setup_s: many partitions are set up
    c-large       fetch_bytes_per_s: many bytes in large fetches; CPU of both ends for each byte
    c-one         fetch_s: many bytes in small fetches, of one partition
    c-tier        retry_s: T less what c-small's constants explain
    c-tier-many   aux_s: (T - T of c-tier) for each partition more, less setup_s
    c-tier-slow   aux_gets: (T - T of c-tier) in units of the latency, for each wave of partitions
    c-produce     produce_weight: from the rate that was left for the copy
    c-throttle    throttle_burst_bytes, what the throttle did not hold back, or throttle_lag_s, what it took longer
    c-waves       wave_s: T less what its replicas take, for each wave

The first four make four linear equations for four constants; without them nothing is fitted, of the others each gives
its own. What noise makes negative counts as zero. `setup_parallel` and the sizes of a fetch are the system's own
configs and not fitted.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tierfetch.model import Calibration, System

from .scenario import Scenario
from .timing import Timing

GB: Final = 1e9
INTERNAL_PARTITIONS: Final = 5
"""The number of partitions of `__remote_log_metadata`, which broker 2 holds besides."""
NEEDED: Final = ("c-small", "c-many", "c-large", "c-one")
ISR_SHARE_MAX: Final = 0.5
"""The largest share of c-small's seconds: the last growth of a log is only looked for now and then."""
SECONDS_MIN: Final = 1e-3
BYTE_S_MIN: Final = 1e-11


@dataclass(frozen=True, slots=True)
class Seen:
    """Medians of one calibration scenario's runs."""

    scenario: Scenario
    seconds: float
    copied_bytes: float
    isr_s: float
    leader_cpu_s: float
    follower_cpu_s: float
    moves: int = 0
    waves: int = 1

    @property
    def partitions(self) -> int:
        return self.scenario.partitions + INTERNAL_PARTITIONS


def seen(scenario: Scenario, runs: Sequence[Timing]) -> Seen:
    return Seen(
        scenario,
        statistics.median(run.start_to_isr_s for run in runs),
        statistics.median(run.copied_bytes for run in runs),
        statistics.median(max(0.0, run.start_to_isr_s - run.all_data_s) for run in runs),
        statistics.median(run.leader_cpu_s for run in runs),
        statistics.median(run.follower_cpu_s for run in runs),
        runs[0].moves,
        runs[0].waves,
    )


def fitted(system: System, found: Mapping[str, Seen], usual: Calibration, origin: str) -> Calibration:
    """`usual` gives what is not measured here. KeyError names a calibration scenario that is needed."""
    missing = [name for name in NEEDED if name not in found]
    if missing:
        raise KeyError(", ".join(missing))
    return refitted(_plain(system, found, usual, origin), found)


def refitted(calibration: Calibration, found: Mapping[str, Seen]) -> Calibration:
    """`calibration` with the constants of those scenarios of `found` that need none of the first four."""
    if {"c-tier", "c-tier-many", "c-tier-slow"} <= found.keys():
        calibration = _with_tier(calibration, found)
    if "c-produce" in found:
        calibration = _with_produce(calibration, found["c-produce"])
    if "c-throttle" in found:
        calibration = _with_throttle(calibration, found["c-throttle"])
    if "c-waves" in found:
        calibration = _with_waves(calibration, found["c-waves"])
    return calibration


def _plain(system: System, found: Mapping[str, Seen], usual: Calibration, origin: str) -> Calibration:
    """What a copy without tier, load and throttle is made of."""
    small, large = found["c-small"], found["c-large"]
    start_s, setup_s, fetch_s, byte_s = _solved([found[name] for name in NEEDED], usual)
    isr_s = min(small.isr_s, ISR_SHARE_MAX * small.seconds)
    return usual.model_copy(
        update={
            "system": system,
            "origin": origin,
            "start_s": max(0.0, start_s - isr_s),
            "setup_s": setup_s * usual.setup_parallel,
            "fetch_s": fetch_s,
            "fetch_bytes_per_s": 1 / max(byte_s, BYTE_S_MIN),
            "isr_expansion_s": isr_s,
            "leader_cpu_s_per_gb": _cpu(small.leader_cpu_s, large.leader_cpu_s, small, large),
            "follower_cpu_s_per_gb": _cpu(small.follower_cpu_s, large.follower_cpu_s, small, large),
        }
    )


def _solved(runs: Sequence[Seen], calibration: Calibration) -> Sequence[float]:
    """Seconds of the start with the ISR's expansion, of each partition, each fetch and each byte; none negative."""
    rows = [[1.0, run.partitions, run.copied_bytes / _fetch_bytes(run, calibration), run.copied_bytes] for run in runs]
    terms, seconds = np.array(rows), np.array([run.seconds for run in runs])
    kept = list(range(terms.shape[1]))
    while True:
        scale = np.abs(terms[:, kept]).max(axis=0)
        solution = np.linalg.lstsq(terms[:, kept] / scale, seconds, rcond=None)[0] / scale
        if solution.min() >= 0:
            break
        del kept[int((solution * scale).argmin())]
    found = dict(zip(kept, solution.tolist(), strict=True))
    return [found.get(column, 0.0) for column in range(terms.shape[1])]


def _fetch_bytes(of: Seen, calibration: Calibration) -> float:
    """What one fetch brings at most."""
    return min(of.scenario.partitions * calibration.fetch_partition_bytes, calibration.fetch_response_bytes)


def copy_s(calibration: Calibration, of: Seen) -> float:
    """Seconds that its bytes take."""
    return of.copied_bytes / (calibration.fetchers * calibration.pace(of.scenario.partitions))


def fixed_s(calibration: Calibration, of: Seen) -> float:
    """The formula without bytes and tier."""
    setup_s = calibration.setup_s / calibration.setup_parallel
    return calibration.start_s + of.partitions * setup_s + calibration.isr_expansion_s


def _with_tier(calibration: Calibration, found: Mapping[str, Seen]) -> Calibration:
    """retry_s, aux_s and aux_gets."""
    few, many, slow = found["c-tier"], found["c-tier-many"], found["c-tier-slow"]
    setup_s = calibration.setup_s / calibration.setup_parallel
    aux_s = max(0.0, _per_partition(calibration, few, many) - setup_s)
    retry_s = few.seconds - fixed_s(calibration, few) - copy_s(calibration, few) - few.scenario.partitions * aux_s
    waves = math.ceil(slow.scenario.partitions / calibration.setup_parallel)
    gets = round((slow.seconds - few.seconds) / (slow.scenario.latency_ms / 1000 * waves))
    return calibration.model_copy(
        update={
            "retry_s": max(0.0, retry_s),
            "aux_s": aux_s * calibration.setup_parallel,
            "aux_gets": max(1, gets),
        }
    )


def _with_produce(calibration: Calibration, busy: Seen) -> Calibration:
    produced = busy.scenario.produce_mb_s * 1e6
    seconds = max(SECONDS_MIN, busy.seconds - fixed_s(calibration, busy))
    pace = calibration.fetchers * calibration.pace(busy.scenario.partitions)
    share = busy.copied_bytes / seconds / pace
    weight = 1 + (1 - share) * calibration.fetch_bytes_per_s / produced
    return calibration.model_copy(update={"produce_weight": max(1.0, weight)})


def _with_throttle(calibration: Calibration, slow: Seen) -> Calibration:
    assert slow.scenario.throttle_mb_s is not None, slow
    rate = slow.scenario.throttle_mb_s * 1e6
    free_bytes = slow.copied_bytes - rate * (slow.seconds - fixed_s(calibration, slow))
    return calibration.model_copy(
        update={"throttle_burst_bytes": max(0.0, free_bytes), "throttle_lag_s": max(0.0, -free_bytes / rate)}
    )


def _with_waves(calibration: Calibration, moved: Seen) -> Calibration:
    """Brokers run already: what is left of the formula is the set-up of what moves, its bytes, and the ISR's
    expansion, once in each wave.
    """
    setup_s = moved.moves * calibration.setup_s / calibration.setup_parallel
    bytes_s = moved.copied_bytes / (calibration.fetchers * calibration.pace(moved.scenario.wave_partitions))
    others_s = setup_s + bytes_s + moved.waves * calibration.isr_expansion_s
    return calibration.model_copy(update={"wave_s": max(0.0, (moved.seconds - others_s) / moved.waves)})


def _per_partition(calibration: Calibration, few: Seen, many: Seen) -> float:
    """Seconds that a partition more takes, apart from its bytes."""
    more = many.scenario.partitions - few.scenario.partitions
    of_bytes_s = copy_s(calibration, many) - copy_s(calibration, few)
    return max(0.0, (many.seconds - few.seconds - of_bytes_s) / more)


def _cpu(few_s: float, many_s: float, few: Seen, many: Seen) -> float:
    return max(0.0, (many_s - few_s) / (max(1.0, many.copied_bytes - few.copied_bytes) / GB))
