"""The record of a sample: a line of JSON for each mutant, kept as a file that any machine continues. Pure.

    {"sample": 2026, "file": "rlm/runs.py", "function": "Runs._deliver", "line": 240, "operator": "drop-call", ...,
     "change": [...], "reached": true, "convicted_by": ["simulator"],
     "simulator": {"verdict": "convicted", "by": "seed 9", "judge": "other bytes", ...}, "unit_tests": {...}, ...}

The sources move on while a sample is judged. A line is found again in those of today, and stays in the sample:

| its mutant today                                          | the line                                                 |
|-----------------------------------------------------------|----------------------------------------------------------|
| its function has the same text, here or in another file   | holds, with today's file and line                        |
| its function changed, and the change can still be made    | is due: the mutant is judged again, by both sides        |
| its function is gone, or the change cannot be made        | is dropped: the next one that is drawn takes its place   |

A side that was not asked yet is due, too. A line is added at the end as soon as a mutant is judged, and the last one on
a mutant holds; at the end of a run they are sorted, so that a difference of two versions shows what was judged between.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Any, Final

from .generate import Mutant

CONVICTED: Final = ("convicted", "hung", "died")
SIDES: Final = {"simulator": "simulator", "unit_tests": "unit tests"}


@dataclass(frozen=True, slots=True)
class Side:
    """What the simulator, or the unit tests, said of a mutant. `by` is the seed or the test that failed, `judge` the
    invariant or the kind of anomaly that a seed failed with.
    """

    verdict: str
    by: str = ""
    judge: str = ""
    reason: str = ""
    ran: int = 0
    reached_by: int = 0


DUE: Final = Side("due")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A line of the record. `digest` is of the function's text, `change` the diff, `commit` where it was judged,
    `sample` the seed that drew it, the first of several, 0 if none did.
    """

    file: str
    function: str
    line: int
    operator: str
    ordinal: int
    digest: str
    change: tuple[str, ...]
    simulator: Side
    unit_tests: Side
    cpu_s: float = 0.0
    commit: str = ""
    sample: int = 0

    @property
    def id(self) -> str:
        """The id of the mutant."""
        return f"{self.file}::{self.function}::{self.operator}::{self.ordinal}"

    @property
    def is_due(self) -> bool:
        """Whether a side has still to be asked."""
        return DUE in (self.simulator, self.unit_tests)

    @property
    def is_reached(self) -> bool:
        return any(side.verdict not in ("unreached", "due") for side in (self.simulator, self.unit_tests))

    @property
    def convicted_by(self) -> list[str]:
        """The names of the sides that convicted it."""
        return [name for field, name in SIDES.items() if getattr(self, field).verdict in CONVICTED]

    @property
    def is_convicted(self) -> bool:
        return bool(self.convicted_by)

    def to_json(self) -> str:
        content = asdict(self)
        sides = {field: _without_defaults(content.pop(field)) for field in SIDES}
        rest = {name: content.pop(name) for name in ("cpu_s", "commit")}
        said = {"reached": self.is_reached, "convicted_by": self.convicted_by}
        return json.dumps({"sample": self.sample} | content | said | sides | rest)

    @classmethod
    def from_json(cls, text: str) -> Verdict:
        content: dict[str, Any] = json.loads(text)
        del content["reached"], content["convicted_by"]
        sides = {field: Side(**content[field]) for field in SIDES}
        return cls(**content | sides | {"change": tuple(content["change"])})


def _without_defaults(side: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in side.items() if value or name == "verdict"}


def parse_record(text: str) -> list[Verdict]:
    """Return the verdicts of a record: of those on one mutant the last."""
    return list({each.id: each for each in map(Verdict.from_json, filter(None, text.splitlines()))}.values())


def record_text(verdicts: Iterable[Verdict]) -> str:
    """Return the text of a record, sorted."""
    return "".join(each.to_json() + "\n" for each in sorted(verdicts, key=lambda each: (each.id, each.sample)))


def placed(
    verdicts: Iterable[Verdict], mutants: Mapping[str, Mutant], change_of: Callable[[Mutant], Sequence[str]]
) -> list[Verdict]:
    """Return what of a record is about these mutants, by id, as the module's docstring says."""
    by_text: dict[tuple[str, str, str, int], list[Mutant]] = defaultdict(list)
    by_function: dict[tuple[str, str, str], list[Mutant]] = defaultdict(list)
    for mutant in mutants.values():
        by_text[mutant.function, mutant.digest, mutant.operator, mutant.ordinal].append(mutant)
        by_function[mutant.file, mutant.function, mutant.operator].append(mutant)

    def found(verdict: Verdict) -> Iterator[Verdict]:
        same = by_text[verdict.function, verdict.digest, verdict.operator, verdict.ordinal]
        here = [mutant for mutant in same if mutant.file == verdict.file]
        if here or same:
            yield _at(verdict, (here or same)[0])
            return
        again = by_function[verdict.file, verdict.function, verdict.operator]
        fitting = [mutant for mutant in again if _changed(change_of(mutant)) == _changed(verdict.change)]
        if fitting:
            nearest = min(fitting, key=lambda mutant: abs(mutant.ordinal - verdict.ordinal))
            yield replace(_at(verdict, nearest), simulator=DUE, unit_tests=DUE)

    now = [each for verdict in verdicts for each in found(verdict)]
    return list({each.id: each for each in now}.values())


def _changed(change: Sequence[str]) -> list[str]:
    """Return the lines of a diff without those around them."""
    return [line for line in change if line.startswith(("-", "+"))]


def _at(verdict: Verdict, mutant: Mutant) -> Verdict:
    return replace(verdict, file=mutant.file, line=mutant.line, ordinal=mutant.ordinal, digest=mutant.digest)


def of_sample(verdicts: Iterable[Verdict], ids: Set[str], seed: int) -> list[Verdict]:
    """Return the verdicts, those on mutants of the sample of this seed marked so: another seed's stay what they are."""
    return [replace(each, sample=seed) if each.id in ids and not each.sample else each for each in verdicts]


def drawn(mutants: Iterable[Mutant], size: int, seed: int, recorded: Set[str] = frozenset()) -> list[Mutant]:
    """Return a sample: those that are recorded, by their ids, and others by rank.

    Each has a rank by the seed and its own id, so that others that come or go move none.
    """
    ranked = sorted(mutants, key=lambda mutant: Random(f"{seed} {mutant.id}").random())
    return sorted(ranked, key=lambda mutant: mutant.id not in recorded)[:size]
