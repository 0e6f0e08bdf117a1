"""What is compared, and when a way to run a broker is better than the standard one. Pure.

A way is an interpreter with an event loop. The standard one is the interpreter of the command with asyncio's own loop.
Each round measures all ways, one after the other, beginning with another one; a ratio is of the same round.

| the ratios of all rounds | verdict |
|---|---|
| better by more than `MARGIN` | better |
| worse by more than `MARGIN` | worse |
| anything else | no difference that shows |
| fewer than `ROUNDS_MIN` | too few rounds |
| none: a benchmark failed | does not run |
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

MARGIN: Final = 0.05
PROBE: Final = (
    "import json, sys, sysconfig; jit = getattr(sys, '_jit', None); print(json.dumps({"
    "'version': '.'.join(map(str, sys.version_info[:3])),"
    " 'is_free_threaded': bool(sysconfig.get_config_var('Py_GIL_DISABLED')),"
    " 'has_jit': jit is not None and jit.is_enabled()}))"
)
"""A program that prints what an interpreter is."""
ROUNDS_MIN: Final = 2
MORE_IS_BETTER: Final = frozenset({"throughput", "share of the bare loops"})
"""Less is better for all other quantities."""


class Verdict(StrEnum):
    BETTER = "better"
    WORSE = "worse"
    SAME = "no difference that shows"
    TOO_FEW = "too few rounds"
    FAILS = "does not run"


@dataclass(frozen=True, slots=True)
class Way:
    """An interpreter, by its program, and whether it runs uvloop."""

    name: str
    python: Path
    is_uvloop: bool


@dataclass(frozen=True, slots=True)
class Value:
    """One figure of a benchmark, the median of its runs."""

    case: str
    quantity: str
    unit: str
    value: float


def name_of(probed: str, *, is_uvloop: bool) -> str:
    """Return the name of a way from what its interpreter has printed."""
    found = json.loads(probed)
    parts = [f"Python {found['version']}"]
    parts += ["free-threaded"] * found["is_free_threaded"] + ["JIT"] * found["has_jit"] + ["uvloop"] * is_uvloop
    return ", ".join(parts)


def values_of(document: str, system: str) -> list[Value]:
    """Return a system's figures from the document that a benchmark wrote."""
    return [
        Value(
            f"{figure['benchmark']}: {figure['case']}",
            figure["quantity"],
            figure["unit"],
            statistics.median(figure["values"]),
        )
        for figure in json.loads(document)["figures"]
        if figure["system"] == system
    ]


def verdict(quantity: str, ratios: Sequence[float]) -> Verdict:
    """Return what the ratios to the standard way say, one of each round."""
    if not ratios:
        return Verdict.FAILS
    if len(ratios) < ROUNDS_MIN:
        return Verdict.TOO_FEW
    gains = ratios if quantity in MORE_IS_BETTER else [1 / ratio for ratio in ratios]
    if min(gains) > 1 + MARGIN:
        return Verdict.BETTER
    if max(gains) < 1 / (1 + MARGIN):
        return Verdict.WORSE
    return Verdict.SAME


def paired(values: Mapping[int, float], standard: Mapping[int, float]) -> list[float]:
    """Return the ratios of the rounds that both have."""
    return [values[number] / standard[number] for number in sorted(values.keys() & standard.keys())]
