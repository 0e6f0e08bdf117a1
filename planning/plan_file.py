"""A plan as a file: the JSON of kafka-reassign-partitions, which reads it, with the rest of a plan under one key more.

    {"version": 1,
     "partitions": [{"topic": "orders", "partition": 0, "replicas": [4, 2, 3]}, ...],
     "tierfetch": {"waves": [[0, 5], [1]], "size_bytes": [...], "leaders": [...], "throttle_bytes_per_s": ...}}

Numbers in `waves` and places in `size_bytes` (to copy) and `held_bytes` (on the leader's disk when it was planned) are
those of `partitions`. `leaders` has partitions once more whose order
changes after all waves. `outlook` is how long the moves take, as predicted when the plan was made. A file without
`tierfetch` is a plan too: one wave, unless it is divided again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..model import Outlook, located
from ..protocol import OperatorError

PROBLEMS_MAX = 20
"""That a message names; the rest is counted."""

BrokerId = Annotated[int, Field(ge=0, le=2**31 - 1)]


class PlanFileError(OperatorError, ValueError):
    """The file cannot be used; the message names file and place, a line for each problem."""


class PlannedPartition(BaseModel):
    """Where the replicas of one partition shall be, the preferred leader first."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    topic: Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[a-zA-Z0-9._-]+$")]
    partition: Annotated[int, Field(ge=0)]
    replicas: Annotated[tuple[BrokerId, ...], Field(min_length=1)]
    log_dirs: tuple[str, ...] | None = None

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.partition


class Roll(BaseModel):
    """Before the first wave: `topics` roll after `segment_ms` until the plan has ended, and uploads are waited for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    topics: Annotated[tuple[str, ...], Field(min_length=1)]
    segment_ms: Annotated[int, Field(gt=0)]
    wait_max_s: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    saved_bytes: Annotated[int, Field(ge=0)] = 0


class PlanDetails(BaseModel):
    """What kafka-reassign-partitions does not know of."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    waves: tuple[tuple[int, ...], ...] = ()
    size_bytes: tuple[Annotated[int, Field(ge=0)], ...] = ()
    held_bytes: tuple[Annotated[int, Field(ge=0)], ...] = ()
    leaders: tuple[PlannedPartition, ...] = ()
    throttle_bytes_per_s: Annotated[int, Field(gt=0)] | None = None
    roll: Roll | None = None
    outlook: Outlook | None = None


class PlanFile(BaseModel):
    """The file."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    version: Literal[1] = 1
    partitions: Annotated[tuple[PlannedPartition, ...], Field(min_length=1)]
    tierfetch: PlanDetails | None = None

    @property
    def details(self) -> PlanDetails:
        return self.tierfetch or PlanDetails()

    @property
    def waves(self) -> tuple[tuple[int, ...], ...]:
        return self.details.waves or (tuple(range(len(self.partitions))),)

    @classmethod
    def parse(cls, text: str | bytes, source: str) -> Self:
        """PlanFileError; `source` names the file in it."""
        try:
            found = cls.model_validate_json(text)
        except ValidationError as error:
            raise PlanFileError(_lines(source, map(located, error.errors()))) from None
        if problems := list(found.problems()):
            raise PlanFileError(_lines(source, problems))
        return found

    @classmethod
    def read(cls, path: Path) -> Self:
        """PlanFileError, also where there is no such file."""
        try:
            return cls.parse(path.read_bytes(), str(path))
        except OSError as error:
            raise PlanFileError(f"{path}: {error.strerror}") from None

    def to_text(self) -> str:
        """One line for each partition, as people compare such files."""
        document = self.model_dump(mode="json", exclude_none=True)
        rows = ",\n".join(f"  {json.dumps(each)}" for each in document["partitions"])
        details = f',\n "tierfetch": {json.dumps(document["tierfetch"])}' if "tierfetch" in document else ""
        return f'{{"version": 1,\n "partitions": [\n{rows}\n ]{details}}}\n'

    def problems(self) -> Iterable[str]:
        """What contradicts itself."""
        for (topic, partition), count in Counter(each.key for each in self.partitions).items():
            if count > 1:
                yield f"{topic}-{partition} is there {count} times"
        for each in (*self.partitions, *self.details.leaders):
            twice = sorted(broker for broker, count in Counter(each.replicas).items() if count > 1)
            if twice:
                yield f"{each.topic}-{each.partition}: broker {twice[0]} twice in {list(each.replicas)}"
            if each.log_dirs is not None and len(each.log_dirs) != len(each.replicas):
                yield f"{each.topic}-{each.partition}: {len(each.log_dirs)} log_dirs for {len(each.replicas)} replicas"
        yield from self._contradicting_details()

    def _contradicting_details(self) -> Iterable[str]:
        details, count = self.details, len(self.partitions)
        if details.waves and sorted(number for wave in details.waves for number in wave) != list(range(count)):
            yield f"tierfetch.waves: expected each of the numbers 0 to {count - 1} once"
        for name, sizes in (("size_bytes", details.size_bytes), ("held_bytes", details.held_bytes)):
            if sizes and len(sizes) != count:
                yield f"tierfetch.{name}: {len(sizes)} numbers for {count} partitions"
        replicas = {each.key: set(each.replicas) for each in self.partitions}
        for each in details.leaders:
            if replicas.get(each.key) != set(each.replicas):
                yield f"tierfetch.leaders: {each.topic}-{each.partition} has other replicas than in partitions"


def _lines(source: str, problems: Iterable[str]) -> str:
    found = list(problems)
    more = [f"... and {len(found) - PROBLEMS_MAX} more like these"] if len(found) > PROBLEMS_MAX else []
    return "\n".join(f"{source}: {each}" for each in (*found[:PROBLEMS_MAX], *more))
