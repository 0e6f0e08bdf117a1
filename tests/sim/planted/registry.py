"""Bugs that the simulator must find. Each is a context manager that replaces one function of the production code.

    @planted("acknowledge before fsync", file="log/replica/flusher.py", scenario="cluster")
    def acknowledge_before_fsync() -> Iterator[None]:
        with patch.object(Flusher, "is_due", ...):
            yield

Each is a mistake that a reviewer could overlook: it breaks nothing at once, and mostly nothing at all without a fault
at the wrong moment. `known.json` has for each the seed that finds it, made by `search.py`; so is
`docs/planted-bugs.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from tierfetch.sim.faults.schedule import FaultKind

KNOWN_FILE = Path(__file__).parent / "known.json"


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """`plant` puts it in, and takes it out at the end. Seeds with many faults of the kinds `faults`, and one of these
    values of these `options`, are tried first: what a seed draws is known before it is run; of one that `needs_quiet`
    those with few other faults. `shown_by` names a test that finds it without a seed: a model checker, a transcript.
    """

    name: str
    file: str
    scenario: str
    plant: Callable[[], AbstractContextManager[None]]
    shown_by: str | None = None
    needs_quiet: bool = False
    faults: tuple[FaultKind, ...] = ()
    options: Mapping[str, tuple[object, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """The seed that finds a bug, how many were tried, and by what it was found."""

    seed: int
    seeds_tried: int
    found_by: str


BUGS: dict[str, PlantedBug] = {}
_FINDINGS = TypeAdapter(dict[str, Finding])


def planted(
    name: str,
    *,
    file: str,
    scenario: str,
    shown_by: str | None = None,
    needs_quiet: bool = False,
    faults: tuple[FaultKind, ...] = (),
    **options: tuple[object, ...],
) -> Callable[[Callable[[], Iterator[None]]], Callable[[], AbstractContextManager[None]]]:
    def add(function: Callable[[], Iterator[None]]) -> Callable[[], AbstractContextManager[None]]:
        plant = contextmanager(function)
        assert name not in BUGS, name
        BUGS[name] = PlantedBug(name, file, scenario, plant, shown_by, needs_quiet, faults, options)
        return plant

    return add


def shown_by(test: str) -> dict[str, Callable[[], AbstractContextManager[None]]]:
    """The bugs that a test has to find, by name."""
    return {bug.name: bug.plant for bug in BUGS.values() if bug.shown_by == test}


def known_findings() -> dict[str, Finding]:
    return _FINDINGS.validate_json(KNOWN_FILE.read_bytes()) if KNOWN_FILE.exists() else {}


def write_findings(findings: dict[str, Finding]) -> None:
    KNOWN_FILE.write_bytes(_FINDINGS.dump_json(dict(sorted(findings.items())), indent=1) + b"\n")
