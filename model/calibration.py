"""What was measured of machines and systems: the model's fixed seconds, rates and CPU. Kept as one JSON file.

replacement of one broker
start           process start until the first question of a replica: `start_s` (once for each broker), and for each
                partition of the cluster `replay_partition_s`, which its metadata take to be read
setup           `setup_s` of work, `setup_parallel` at a time on a broker, and `setup_round_trips` to the leader
aux state       when it adopts from the tier: `aux_s` of work as above, `aux_gets` one after the other, `aux_bytes`
retry           when it adopts from the tier: `retry_s`, in which nothing happens, once and for all replicas together
bulk, catch-up  `fetchers` connections to a leader, each one fetch after the other: a fetch brings up to
                `fetch_partition_bytes` of each replica, `fetch_response_bytes` in all, and takes `fetch_s`, the round
                trip and its bytes at `fetch_bytes_per_s`. Each byte that producers write meanwhile to the broker's
                partitions takes as long as `produce_weight` bytes; CPU of both ends
throttle        lets through at once what it was not used for, at most that of `throttle_rest_s`, and does not hold back
                the last `throttle_burst_bytes`: the debt of a fetch is waited for after it; but
                where it is what limits, who waits for it looks again too late by `throttle_lag_s`, once
ISR expansion   `isr_expansion_s` from caught up until clients see it in the ISR

a wave of a plan has no start, but `wave_s` from the end of the wave before (of the first: from its orders) until the
first question of a replica: its executor looks, sets throttles, and gives the orders

So n partitions of `bytes` in all, from one leader, with nothing else in the way, are in the ISR after

    start_s + partitions * replay_partition_s
      + n / setup_parallel * (setup_s + aux_s) + retry_s + ceil(n / setup_parallel) * aux_gets * tier latency
      + bytes / (fetchers * pace(n) * (1 - (produce_weight - 1) * produced / fetch_bytes_per_s) - produced)
      + isr_expansion_s

where producers write `produced` bytes per second to these partitions, and

    pace(n) = size / (fetch_s + round trip + size / fetch_bytes_per_s)
    size    = min(n * fetch_partition_bytes, fetch_response_bytes)        n replicas of one connection

which is what `python -m bench model` reads the constants off. What it does not know: how they change with a system's
version, a JVM's options, or on another machine; measure again there (`tierfetch model calibrate`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..protocol import OperatorError
from .complaints import located
from .inventory_parts import Policy

DEFAULT_FILE: Final = "calibration.json"
System = Literal["tierfetch", "kafka"]
KAFKA_POLICIES: Final = frozenset({Policy.KAFKA, Policy.KAFKA_LAST_TIERED})

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
BytesPerS = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Factor = Annotated[float, Field(ge=1, le=100, allow_inf_nan=False)]
Size = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class CalibrationError(OperatorError, ValueError):
    """A file that is no calibration, or has not what is asked for; the message names the file and each key."""


class _Measured(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Spread(_Measured):
    """How far apart times are that the model takes for one, as factors of the time (`core/ranges.py`). Each is what
    is not exceeded in nine of ten cases: 1 is exact.

    `runs`: a run beside the median of its like; `model`: a prediction beside the median of what it is for; `first`: a
    run whose leader and follower do this for the first time; `load`: a machine with one process more for each core;
    `throttle`: what a replication throttle lets through.
    """

    origin: str = ""
    runs: Factor = 1.0
    model: Factor = 1.0
    first: Factor = 1.0
    load: Factor = 1.0
    throttle: Factor = 1.0


class Taught(_Measured):
    """What a history said of a calibration: its machines take `scale` times as long as those of the one with the digest
    `base`.
    """

    base: str
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Calibration(_Measured):
    """One system; see the module. CPU seconds are for each GB (10^9 bytes)."""

    system: System
    origin: str = Field(default="", description="Where and how it was measured.")
    start_s: Seconds
    replay_partition_s: Seconds = 0.0
    setup_s: Seconds
    setup_parallel: Annotated[int, Field(gt=0)]
    setup_round_trips: Annotated[int, Field(ge=0)]
    aux_s: Seconds
    aux_gets: Annotated[int, Field(ge=0)]
    aux_bytes: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    retry_s: Seconds
    fetch_bytes_per_s: BytesPerS
    fetchers: Annotated[int, Field(gt=0)]
    fetch_s: Seconds = 0.0
    fetch_partition_bytes: Size = 1 << 20
    fetch_response_bytes: Size = 10 << 20
    produce_weight: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.0
    throttle_burst_bytes: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    throttle_rest_s: Seconds = 0.0
    throttle_lag_s: Seconds = 0.0
    leader_cpu_s_per_gb: Seconds
    follower_cpu_s_per_gb: Seconds
    isr_expansion_s: Seconds
    wave_s: Seconds = 0.0
    session_timeout_s: Annotated[Seconds, Field(description="A silent broker is fenced after so long.")]
    refusal_s: Annotated[
        Seconds | None,
        Field(
            description="A broker whose listener refuses connections is fenced after so long; null: as a silent one."
        ),
    ] = None
    election_s: Annotated[Seconds, Field(description="From the fence until a new leader takes records.")]
    spread: Spread = Spread()
    taught: Taught | None = None

    @property
    def base(self) -> str:
        """Return the digest of the calibration that this one was learned from; its own, if it was measured."""
        return self.digest if self.taught is None else self.taught.base

    @property
    def scale(self) -> float:
        """Return by how much longer machines take than by `base`."""
        return 1.0 if self.taught is None else self.taught.scale

    @property
    def digest(self) -> str:
        """Return a digest of everything that is not as usual."""
        return hashlib.sha256(self.model_dump_json(exclude_defaults=True).encode()).hexdigest()[:16]

    def learned(self, scale: float, model: float | None, origin: str) -> Calibration:
        """Return it for machines that take `scale` times as long, and predictions that are off by `model` (None: as
        before). It was measured, not learned itself: a lesson on top of a lesson would count the same moves twice.
        """
        assert self.taught is None, "learned already"
        times = {name: getattr(self, name) * scale for name in _TIMES}
        spread = self.spread if model is None else self.spread.model_copy(update={"model": model})
        return self.model_copy(
            update={
                **times,
                "fetch_bytes_per_s": self.fetch_bytes_per_s / scale,
                "spread": spread,
                "taught": Taught(base=self.digest, scale=scale),
                "origin": f"{self.origin}; {origin}" if self.origin else origin,
            }
        )

    def pace(self, replicas: float, round_trip_s: float = 0.0) -> float:
        """Bytes for each second of one connection that fetches so many replicas, without live produce."""
        size = min(replicas * self.fetch_partition_bytes, self.fetch_response_bytes)
        return size / (self.fetch_s + round_trip_s + size / self.fetch_bytes_per_s)


_TIMES: Final = (
    "start_s",
    "replay_partition_s",
    "setup_s",
    "aux_s",
    "retry_s",
    "fetch_s",
    "isr_expansion_s",
    "leader_cpu_s_per_gb",
    "follower_cpu_s_per_gb",
)
"""What a slower machine takes longer for."""


class MachineRates(_Measured):
    """What one process of this machine gets when it does nothing else. Tier None: not measured."""

    cores: Annotated[float, Field(gt=0)]
    loopback_bytes_per_s: BytesPerS
    disk_read_bytes_per_s: BytesPerS
    disk_write_bytes_per_s: BytesPerS
    fsync_s: Seconds
    crc_bytes_per_s: BytesPerS
    tier_put_bytes_per_s: BytesPerS | None = None
    tier_get_bytes_per_s: BytesPerS | None = None
    tier_request_s: Seconds | None = None


class Calibrations(_Measured):
    """The file: any number of systems, and the machine they ran on."""

    version: Literal[1] = 1
    machine: MachineRates | None = None
    systems: Mapping[System, Calibration] = Field(min_length=1)

    def of(self, policy: Policy) -> Calibration:
        """Return the calibration of the policy's system. CalibrationError names the systems that were measured."""
        system: System = "kafka" if policy in KAFKA_POLICIES else "tierfetch"
        if system not in self.systems:
            raise CalibrationError(
                f"policy {policy.value} is {system}'s, but only {', '.join(sorted(self.systems))} was measured: "
                "choose another calibration, or measure it"
            )
        return self.systems[system]

    @classmethod
    def parse(cls, text: str | bytes, source: str) -> Self:
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise CalibrationError("\n".join(f"{source}: {located(each)}" for each in error.errors())) from None

    @classmethod
    def read(cls, path: Path) -> Self:
        """CalibrationError; OSError."""
        return cls.parse(path.read_bytes(), str(path))

    @classmethod
    def default(cls) -> Self:
        """What ships with the package; each system's `origin` says where it was measured."""
        return cls.parse(resources.files(__package__).joinpath(DEFAULT_FILE).read_bytes(), DEFAULT_FILE)

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.model_dump_json(indent=1, exclude_none=True) + "\n", encoding="utf-8")
