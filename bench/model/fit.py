"""The model's constants from the calibration scenarios, each read off what it isolates. Pure.

With T the median seconds to the ISR, n partitions (the cluster's own among them), b bytes copied (the formula is in
`sim/cluster/calibration.py`):

    scenario      what it isolates
    ------------  ------------------------------------------------------------------------------------------
    c-small       start_s: T less everything else
    c-many        setup_s: (T - T of c-small) for each partition more
    c-large       fetch_bytes_per_s: bytes more for each second more than c-small; CPU of both ends for each byte
    c-tier        retry_s: T less what c-small's constants explain
    c-tier-many   aux_s: (T - T of c-tier) for each partition more, less setup_s
    c-tier-slow   aux_gets: (T - T of c-tier) in units of the latency, for each wave of partitions
    c-produce     produce_weight: from the rate that was left for the copy
    c-throttle    throttle_burst_bytes: what the throttle did not hold back

Constants below what can be told are taken as zero; `setup_parallel` is the system's own and not fitted.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tierfetch.sim.cluster.calibration import Calibration, System

from .scenario import Scenario
from .timing import Timing

GB: Final = 1e9
INTERNAL_PARTITIONS: Final = 5
"""Of `__remote_log_metadata`, which broker 2 holds besides."""
ISR_SHARE_MAX: Final = 0.5
"""Of c-small's seconds at most: the last growth of a log is only looked for now and then."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Medians of one calibration scenario's runs."""

    scenario: Scenario
    seconds: float
    copied_bytes: float
    isr_s: float
    leader_cpu_s: float
    follower_cpu_s: float

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
    )


def fitted(system: System, found: Mapping[str, Seen], usual: Calibration, origin: str) -> Calibration:
    """`usual` gives what is not measured here. KeyError names a calibration scenario that was not run."""
    small, many, large = found["c-small"], found["c-many"], found["c-large"]
    rate = _positive(large.copied_bytes - small.copied_bytes) / _positive(large.seconds - small.seconds)
    setup_s = _per_partition(small, many, rate)
    isr_s = min(small.isr_s, ISR_SHARE_MAX * small.seconds)
    start_s = small.seconds - small.copied_bytes / rate - small.partitions * setup_s - isr_s
    measured = usual.model_copy(
        update={
            "system": system,
            "origin": origin,
            "start_s": max(0.0, start_s),
            "setup_s": setup_s * usual.setup_parallel,
            "fetch_bytes_per_s": rate / usual.fetchers,
            "isr_expansion_s": isr_s,
            "leader_cpu_s_per_gb": _cpu(small.leader_cpu_s, large.leader_cpu_s, small, large),
            "follower_cpu_s_per_gb": _cpu(small.follower_cpu_s, large.follower_cpu_s, small, large),
        }
    )
    return _with_bandwidth(_with_tier(measured, found), found)


def _with_tier(calibration: Calibration, found: Mapping[str, Seen]) -> Calibration:
    """retry_s, aux_s and aux_gets."""
    one, many, slow = found["c-tier"], found["c-tier-many"], found["c-tier-slow"]
    rate = calibration.fetch_bytes_per_s * calibration.fetchers
    setup_s = calibration.setup_s / calibration.setup_parallel
    aux_s = max(0.0, _per_partition(one, many, rate) - setup_s)
    explained = plain_s(calibration, one) + one.scenario.partitions * aux_s
    waves = math.ceil(slow.scenario.partitions / calibration.setup_parallel)
    gets = round((slow.seconds - one.seconds) / (slow.scenario.latency_ms / 1000 * waves))
    return calibration.model_copy(
        update={
            "retry_s": max(0.0, one.seconds - explained),
            "aux_s": aux_s * calibration.setup_parallel,
            "aux_gets": max(1, gets),
        }
    )


def _with_bandwidth(calibration: Calibration, found: Mapping[str, Seen]) -> Calibration:
    """produce_weight and throttle_burst_bytes."""
    busy, slow = found["c-produce"], found["c-throttle"]
    rate = calibration.fetch_bytes_per_s * calibration.fetchers
    produced = busy.scenario.produce_mb_s * 1e6
    fixed_s = plain_s(calibration, busy) - busy.copied_bytes / rate
    copy_s = _positive(busy.seconds - fixed_s)
    left = (busy.copied_bytes - produced * copy_s) / copy_s
    throttle = (slow.scenario.throttle_mb_s or 0.0) * 1e6
    held_back = throttle * (slow.seconds - (plain_s(calibration, slow) - slow.copied_bytes / rate))
    return calibration.model_copy(
        update={
            "produce_weight": max(1.0, (rate - left) / produced),
            "throttle_burst_bytes": max(0.0, slow.copied_bytes - held_back),
        }
    )


def plain_s(calibration: Calibration, of: Seen) -> float:
    """The formula without a tier, load and throttle."""
    return (
        calibration.start_s
        + of.partitions * calibration.setup_s / calibration.setup_parallel
        + of.copied_bytes / (calibration.fetch_bytes_per_s * calibration.fetchers)
        + calibration.isr_expansion_s
    )


def _per_partition(few: Seen, many: Seen, rate: float) -> float:
    """Seconds that a partition more takes, apart from its bytes."""
    more = many.scenario.partitions - few.scenario.partitions
    bytes_s = (many.copied_bytes - few.copied_bytes) / rate
    return max(0.0, (many.seconds - few.seconds - bytes_s) / more)


def _cpu(few_s: float, many_s: float, few: Seen, many: Seen) -> float:
    return max(0.0, (many_s - few_s) / (_positive(many.copied_bytes - few.copied_bytes) / GB))


def _positive(value: float) -> float:
    """A difference that noise may have turned round."""
    return max(value, 1e-3)
