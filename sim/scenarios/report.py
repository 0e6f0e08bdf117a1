"""What one run came to, as values; written as JSON and printed."""

from __future__ import annotations

from dataclasses import field

from pydantic import TypeAdapter

from ...light_dataclass import dataclass
from ..faults.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Tallies:
    """What a run was about: faults injected by kind; records acknowledged by all, checked, and permitted to be lost;
    what an administrator changed, by kind.
    """

    injected: dict[str, int]
    acknowledged: int
    checked: int
    excused: int
    changed: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """One run of one seed. `failures` has a line for each violated invariant, anomaly and fault of our own.

    `options` are the seed's choices; `injected` counts faults by kind, `changed` what was acknowledged to an
    administrator; `digest` is the same for two runs that were the
    same in every event. `leading_up` are lines of the trace: what happened to the partition, or the hosts, of the first
    failure, and the faults meanwhile.
    """

    scenario: str
    seed: int
    failures: tuple[str, ...]
    schedule: Schedule
    options: dict[str, str]
    virtual_s: float
    real_s: float
    events: int
    injected: dict[str, int]
    changed: dict[str, int] = field(default_factory=dict)
    records_acknowledged: int
    records_checked: int
    records_excused: int
    digest: str
    leading_up: tuple[str, ...] = ()

    @property
    def has_failed(self) -> bool:
        return bool(self.failures)


REPORTS = TypeAdapter(list[RunReport])
"""To and from JSON."""
