"""What was measured of a system on a machine: the model's fixed seconds, rates and CPU. Kept as JSON.

replacement of one replica
start           process start until the first question of a replica: `start_s` (once for each broker)
setup           `setup_s` of work, `setup_parallel` at a time on a broker, and `setup_round_trips` to the leader
aux state       when it adopts from the tier: `aux_s`, `aux_gets` one after the other, `aux_bytes`
retry           when it adopts from the tier: `retry_s`, in which nothing happens
bulk, catch-up  at most `fetch_bytes_per_s` for each of `fetchers` connections to a leader; CPU of both ends
ISR expansion   `isr_expansion_s` from caught up until it is in the ISR
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class CalibrationError(ValueError):
    """A file that is no calibration; the message names the file and each key."""


class Calibration(BaseModel):
    """See the module. CPU seconds are for each GB (10^9 bytes)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    system: Literal["tierfetch", "kafka"]
    origin: str = Field(default="", description="Where and how it was measured.")
    start_s: Seconds
    setup_s: Seconds
    setup_parallel: Annotated[int, Field(gt=0)]
    setup_round_trips: Annotated[int, Field(ge=0)]
    aux_s: Seconds
    aux_gets: Annotated[int, Field(ge=0)]
    aux_bytes: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    retry_s: Seconds
    fetch_bytes_per_s: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    fetchers: Annotated[int, Field(gt=0)]
    leader_cpu_s_per_gb: Seconds
    follower_cpu_s_per_gb: Seconds
    isr_expansion_s: Seconds
    session_timeout_s: Annotated[Seconds, Field(description="A dead broker is fenced after so long.")]
    election_s: Annotated[Seconds, Field(description="From the fence until a new leader takes records.")]

    @classmethod
    def read(cls, path: Path) -> Self:
        """CalibrationError; OSError."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except ValidationError as error:
            lines = [f"{path}: {'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
            raise CalibrationError("\n".join(lines)) from None

    def write(self, path: Path) -> None:
        path.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")


TIERFETCH: Final = Calibration(
    system="tierfetch",
    origin="two cores on loopback, docs/benchmarks.md",
    start_s=0.9,
    setup_s=0.01,
    setup_parallel=4,
    setup_round_trips=3,
    aux_s=0.02,
    aux_gets=3,
    aux_bytes=4096.0,
    retry_s=0.0,
    fetch_bytes_per_s=550e6,
    fetchers=1,
    leader_cpu_s_per_gb=0.8,
    follower_cpu_s_per_gb=0.9,
    isr_expansion_s=0.05,
    session_timeout_s=9.0,
    election_s=0.1,
)
"""Until a machine of one's own is measured (`tierfetch model calibrate`)."""

KAFKA: Final = Calibration(
    system="kafka",
    origin="Apache Kafka 4.3.0, two cores on loopback, docs/benchmarks.md",
    start_s=2.4,
    setup_s=0.01,
    setup_parallel=1,
    setup_round_trips=3,
    aux_s=0.02,
    aux_gets=2,
    aux_bytes=4096.0,
    retry_s=1.15,
    fetch_bytes_per_s=293e6,
    fetchers=1,
    leader_cpu_s_per_gb=1.7,
    follower_cpu_s_per_gb=2.0,
    isr_expansion_s=0.1,
    session_timeout_s=9.0,
    election_s=0.3,
)
"""As `TIERFETCH`."""
