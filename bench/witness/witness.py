"""The model beside the simulated cluster: constants from small runs, then each case predicted, simulated, compared.

    constant             read off (two brokers, links that limit nothing)
    -------------------  ----------------------------------------------------------------
    start_s, setup_s     few partitions, many partitions
    fetch_s              many bytes of one partition
    fetch_bytes_per_s    many bytes of many partitions
    wave_s               a plan of small waves: what they take beside set-up and bytes

The waves of a case are ordered one after the other, each when the one before has ended.

They are fitted as those of real brokers are (`bench/model/fit.py`), and none of the cases is among those runs. CPU and
tier cost nothing there. The error is that of the model's median, of the last replica and of the median one.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.table import Table

from tierfetch.model import Calibration, Calibrations

from ..model.fit import INTERNAL_PARTITIONS, NEEDED, Seen, fitted
from ..model.scenario import Scenario
from .case import Case, Kind, ask
from .cluster import partition_bytes, simulate_case
from .course import WaveCompared, compare_waves

MEASURED: Final = {
    "c-small": Case(Kind.REPLACE, brokers=2, partitions=9, partition_kb=1_000, nic_mb_s=1, replication=2),
    "c-many": Case(Kind.REPLACE, brokers=2, partitions=96, partition_kb=500, nic_mb_s=1, replication=2),
    "c-large": Case(Kind.REPLACE, brokers=2, partitions=16, partition_kb=3_000, nic_mb_s=1, replication=2),
    "c-one": Case(Kind.REPLACE, brokers=2, partitions=1, partition_kb=20_000, nic_mb_s=1, replication=2),
    "c-waves": Case(Kind.ADD, brokers=3, partitions=24, partition_kb=500, nic_mb_s=1, replication=2, wave_partitions=3),
}
COLUMNS: Final = ("case", "replicas", "predicted", "simulated", "error", "median replica's", "virtual", "CPU", "events")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One case. `predicted_s` and `simulated_s` are until the last replica is in sync, `median_*` until half are."""

    case: Case
    replicas: int
    predicted_s: float
    simulated_s: float
    median_predicted_s: float
    median_simulated_s: float
    virtual_s: float
    events: int
    cpu_s: float
    waves: tuple[WaveCompared, ...] = ()

    @property
    def error(self) -> float:
        return self.predicted_s / self.simulated_s - 1

    @property
    def median_error(self) -> float:
        return self.median_predicted_s / self.median_simulated_s - 1


def calibrated(seed: int = 1) -> Calibration:
    """Return the constants of simulated brokers."""
    assert set(NEEDED) < MEASURED.keys()
    usual = Calibrations.default().systems["tierfetch"]
    found = {name: _seen(name, case, usual, seed) for name, case in MEASURED.items()}
    free = {"leader_cpu_s_per_gb": 0.0, "follower_cpu_s_per_gb": 0.0, "aux_s": 0.0, "retry_s": 0.0}
    return fitted("tierfetch", found, usual.model_copy(update=free), "the simulated cluster")


def _seen(name: str, case: Case, usual: Calibration, seed: int) -> Seen:
    """What the fit asks for. There is no topic of the tier's metadata here, whose partitions it would add."""
    asked = ask(case, partition_bytes(case), usual)
    found = simulate_case(case, asked.plan, seed=seed, is_shaped=False)
    replicas = len(found.courses)
    scenario = Scenario(
        name=name,
        total_mb=1,
        partitions=max(1, replicas - INTERNAL_PARTITIONS),
        wave_partitions=case.wave_partitions,
    )
    waves = 1 if asked.plan is None else len({each.wave for each in found.courses})
    return Seen(scenario, found.seconds, replicas * partition_bytes(case), 0.0, 0.0, 0.0, replicas, waves)


def compare(case: Case, calibration: Calibration, *, seed: int = 1) -> Compared:
    """Predict, then simulate."""
    asked = ask(case, partition_bytes(case), calibration)
    predicted = asked.prediction.result
    began_s = time.process_time()
    found = simulate_case(case, asked.plan, seed=seed)
    assert len(found.joined_s) == len(asked.moves), (len(found.joined_s), len(asked.moves))
    return Compared(
        case=case,
        replicas=len(asked.moves),
        predicted_s=predicted.duration_s,
        simulated_s=found.seconds,
        median_predicted_s=statistics.median(predicted.joined_s.tolist()),
        median_simulated_s=statistics.median(found.joined_s),
        virtual_s=found.virtual_s,
        events=found.events,
        cpu_s=time.process_time() - began_s,
        waves=compare_waves(predicted, found.courses),
    )


def table(found: Sequence[Compared]) -> Table:
    """Return the errors."""
    made = Table(*COLUMNS, title="the model beside the simulated cluster: until the last replica is in sync")
    for each in found:
        made.add_row(
            each.case.name,
            f"{each.replicas:,}",
            f"{each.predicted_s:.2f} s",
            f"{each.simulated_s:.2f} s",
            f"{each.error:+.0%}",
            f"{each.median_error:+.0%}",
            f"{each.virtual_s:.0f} s",
            f"{each.cpu_s:.0f} s",
            f"{each.events:,}",
        )
    return made


def sentence(found: Sequence[Compared]) -> str:
    """Return the errors in one line."""
    errors = [abs(each.error) for each in found]
    return f"{len(found)} cases: median error {statistics.median(errors):.0%}, worst {max(errors):.0%}"
