"""A prediction as it is kept in files: in a plan, in the journal of its execution, and in the history of what came of
it.

An `Outlook` is what was predicted of moves before they began; `course` are instants and shares of the work done by
then. A `Past` is an outlook with the time that it took in the end. The history is a file of lines, one `Past` each, of
which the newest `PAST_MAX` are kept; a line that is none is an error with its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from .drift import Correction, Sight, corrected
from .ranges import Effect, Range

PAST_MAX: Final = 1_000
COURSE_MAX: Final = 200
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]

Scale = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Kept(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class KeptEffect(_Kept):
    """`longer` None: it may never end."""

    name: str
    shorter: Annotated[float, Field(ge=0, le=1)]
    longer: Annotated[float, Field(ge=1)] | None


class Outlook(_Kept):
    """`machine_s` are the seconds that machines decide, which a calibration has measured: that with the digest `base`,
    or one that was learned from it, of which machines take `scale` times as long. `high_s` None: it may never end.
    `moves` is the number of replicas that it is for; None where that is not known (an older file).
    """

    system: Literal["tierfetch", "kafka"]
    low_s: Seconds
    median_s: Seconds
    high_s: Seconds | None
    machine_s: Seconds
    base: str = ""
    scale: Scale = 1.0
    throttle_bytes_per_s: int | None = None
    moves: Annotated[int, Field(ge=0)] | None = None
    effects: tuple[KeptEffect, ...] = ()
    course: Annotated[
        tuple[tuple[Seconds, Annotated[float, Field(ge=0, le=1)]], ...], Field(max_length=COURSE_MAX)
    ] = ()

    @classmethod
    def of(
        cls,
        found: Range,
        course: Sequence[Sight],
        *,
        system: Literal["tierfetch", "kafka"],
        machine_s: float,
        base: str = "",
        scale: float = 1.0,
        throttle_bytes_per_s: int | None = None,
        moves: int | None = None,
        waits_s: float = 0.0,
    ) -> Self:
        """Return what is kept of a prediction with an end; `waits_s` pass before its moves begin."""
        return cls(
            system=system,
            low_s=found.low + waits_s,
            median_s=found.median + waits_s,
            high_s=None if found.high == float("inf") else found.high + waits_s,
            machine_s=machine_s,
            base=base,
            scale=scale,
            throttle_bytes_per_s=throttle_bytes_per_s,
            moves=moves,
            effects=tuple(
                KeptEffect(
                    name=each.name, shorter=each.shorter, longer=None if each.longer == float("inf") else each.longer
                )
                for each in found.effects
            ),
            course=tuple((each.at_s + waits_s, min(1.0, max(0.0, each.share))) for each in course),
        )

    @property
    def range(self) -> Range:
        effects = tuple(
            Effect(each.name, each.shorter, float("inf") if each.longer is None else each.longer)
            for each in self.effects
        )
        return Range(self.low_s, self.median_s, float("inf") if self.high_s is None else self.high_s, effects)

    def of_other_moves(self, moves: int) -> str:
        """Why it does not hold for so many replicas; "" if it is for them."""
        if self.moves is None or self.moves == moves:
            return ""
        return f"it was predicted for {counted(self.moves)}, and there {'is' if moves == 1 else 'are'} {moves:,}"

    def corrected(self, now: Sight, events: Sequence[str] = (), trail: Sequence[Sight] = ()) -> Correction:
        """Return the end as it is expected now; `trail` is what was seen until now."""
        return corrected(self.range, [Sight(*each) for each in self.course], now, events, trail)


def counted(replicas: int) -> str:
    return "1 replica" if replicas == 1 else f"{replicas:,} replicas"


class Past(_Kept):
    """What was predicted, and what was. `broken`: why the prediction did not hold any longer, "" if it did."""

    version: Literal[1] = 1
    at_ms: int
    cluster_id: str
    what: str
    system: Literal["tierfetch", "kafka"]
    low_s: Seconds
    median_s: Seconds
    high_s: Seconds | None
    machine_s: Seconds
    base: str = ""
    scale: Scale = 1.0
    measured_s: Seconds
    broken: str = ""

    @classmethod
    def of(
        cls, outlook: Outlook, measured_s: float, *, at_ms: int, cluster_id: str, what: str, broken: str = ""
    ) -> Self:
        return cls(
            at_ms=at_ms,
            cluster_id=cluster_id,
            what=what,
            system=outlook.system,
            low_s=outlook.low_s,
            median_s=outlook.median_s,
            high_s=outlook.high_s,
            machine_s=outlook.machine_s,
            base=outlook.base,
            scale=outlook.scale,
            measured_s=measured_s,
            broken=broken,
        )


def parse_history(data: bytes) -> list[Past]:
    """Return the whole lines, the oldest first; ValueError (pydantic's) for one that is no `Past`. A torn last line, of
    a process that died, is left out.
    """
    return [Past.model_validate_json(line) for line in data.split(b"\n")[:-1] if line.strip()]


def history_of(past: Sequence[Past]) -> bytes:
    """Return the file, with the newest of these."""
    return b"".join(each.model_dump_json().encode() + b"\n" for each in past[-PAST_MAX:])
