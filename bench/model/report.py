"""What came of a session, as tables for a terminal and as the text of docs/model-proof.md."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table

from tierfetch.model import Calibration, Spread, System

from .breakdown import Row, medians, predicted_rows
from .judge import (
    COVERAGE,
    FAIR,
    GOOD,
    NOT_JUDGED_MAX,
    RUNS_MIN,
    SPREAD_MAX,
    UNFAIR_MAX,
    Aim,
    Judgement,
    Summary,
    Sureness,
    Verdict,
    drawn_aim,
    judged,
    summary,
    sureness,
)
from .record import Entry, Record

SYSTEMS: Final[tuple[System, ...]] = ("tierfetch", "kafka")
NAMES: Final = {"tierfetch": "tierfetch", "kafka": "Apache Kafka 4.3.0"}
COLUMNS: Final = ("scenario", "policy", "predicted", "80 %", "measured", "spread", "error", "copied", "verdict")
_STYLES: Final = {Verdict.GOOD: "green", Verdict.FAIR: "yellow", Verdict.WRONG: "red"}


def judgements(record: Record, system: System, runs_min: int = RUNS_MIN) -> list[tuple[Entry, Judgement]]:
    """Return the judgements of every test scenario that was predicted and run."""
    return [
        (entry, judged(entry.forecast.start_to_isr_s, entry.seconds, runs_min))
        for entry in record.tests
        if entry.system == system and entry.forecast is not None and entry.runs
    ]


def print_tables(record: Record, console: Console, runs_min: int) -> None:
    if rows := list(aim_rows(record, runs_min)):
        console.print(table_of(rows, "the aims, and what was reached"))
    for system in SYSTEMS:
        found = judgements(record, system, runs_min)
        if not any(entry.system == system for entry in record.tests):
            continue
        table = Table(*COLUMNS, title=f"{NAMES[system]}: {_MEASURED}")
        for entry, each in found:
            table.add_row(*_cells(entry, each), style=_STYLES.get(each.verdict))
        console.print(table)
        console.print(_sentence(record, system, found))
        if rows := list(breakdown_rows(found)):
            console.print(table_of(rows, f"{NAMES[system]}: {_BREAKDOWN}"))
    for entry in (*record.calibration_runs, *record.tests):
        if entry.failure:
            console.print(f"[red]{entry.system}, {entry.scenario.name}: {entry.failure}[/]")


def table_of(lines: Iterable[tuple[str, ...]], title: str) -> Table:
    """Return lines, of which the first are the headings, under a title."""
    headings, *rows = lines
    table = Table(*headings, title=title)
    for row in rows:
        table.add_row(*row)
    return table


def _cells(entry: Entry, each: Judgement) -> tuple[str, ...]:
    assert entry.forecast is not None
    measured = "never" if math.isinf(each.measured_s) else f"{each.measured_s:.2f} s"
    if math.isfinite(each.slowest_s):
        measured += f" ({each.quickest_s:.2f} to {each.slowest_s:.2f})"
    return (
        entry.scenario.text,
        entry.scenario.policy(entry.system).value,
        "never" if math.isinf(each.predicted_s) else f"{each.predicted_s:.2f} s",
        f"{entry.forecast.low_s:.2f} to {entry.forecast.high_s:.2f} s" if math.isfinite(entry.forecast.high_s) else "-",
        measured,
        f"{each.spread:.0%}",
        "-" if math.isinf(each.error) else f"{each.error:+.0%}",
        f"{entry.forecast.copied_bytes / 1e6:,.1f} / {_copied_mb(entry):,.1f} MB",
        each.verdict.value,
    )


def breakdown_rows(found: Sequence[tuple[Entry, Judgement]]) -> Iterator[tuple[str, ...]]:
    """The headings, then seconds by row of each scenario whose runs have them, predicted / measured (medians); of a
    plan in waves once more for its last partition. Nothing if no run has any.
    """
    parts = [part for entry, _ in found for part in _breakdowns(entry)]
    rows = [row for row in Row if any(row in each for _, *both in parts for each in both)]
    if not rows:
        return
    yield ("scenario", *(row.value for row in rows))
    for name, predicted, measured in parts:
        cells = (f"{predicted.get(row, 0.0):.2f} / {measured.get(row, 0.0):.2f}" for row in rows)
        yield name, *("-" if cell == "0.00 / 0.00" else cell for cell in cells)


def _breakdowns(entry: Entry) -> Iterator[tuple[str, dict[Row, float], dict[Row, float]]]:
    runs = [run for run in entry.runs if run is not None and run.whole_seconds]
    if entry.forecast is None or not runs:
        return
    name, forecast = entry.scenario.text, entry.forecast
    yield name, predicted_rows(forecast.whole_seconds), medians([run.whole_seconds for run in runs])
    if any(run.waves > 1 for run in runs):
        last = medians([run.seconds for run in runs])
        yield f"{name}: last partition", predicted_rows(forecast.seconds), last


def _copied_mb(entry: Entry) -> float:
    copied = sorted(run.copied_bytes for run in entry.runs if run is not None)
    return copied[len(copied) // 2] / 1e6 if copied else 0.0


def _summary(record: Record, system: System, found: Sequence[tuple[Entry, Judgement]]) -> Summary:
    """The system's test scenarios, including those that failed."""
    tried = sum(entry.system == system for entry in record.tests)
    return summary([each for _, each in found], failed=tried - len(found))


def _sureness(found: Sequence[tuple[Entry, Judgement]]) -> Sureness | None:
    """What came of the intervals."""
    pairs = [
        ((entry.forecast.low_s, entry.forecast.high_s), entry.seconds)
        for entry, _ in found
        if entry.forecast is not None
    ]
    return sureness([interval for interval, _ in pairs], [seconds for _, seconds in pairs])


def aim_rows(record: Record, runs_min: int = RUNS_MIN) -> Iterator[tuple[str, ...]]:
    """The headings, then the aims of drawn scenarios, and what each system reached; nothing of chosen ones."""
    systems = [system for system in SYSTEMS if any(entry.system == system for entry in record.tests)]
    if record.seed is None or not systems:
        return
    found = [_reached(record, system, judgements(record, system, runs_min)) for system in systems]
    yield ("", "aim", *(NAMES[system] for system in systems))
    aims = (
        (f"scenarios drawn from seed {record.seed}", ""),
        ("error of the medians, median", f"at most {GOOD:.0%}"),
        (f"scenarios within {FAIR:.0%}", f"at least {1 - UNFAIR_MAX:.0%}"),
        ("runs in their 80 % interval", f"{COVERAGE[0]:.0%} to {COVERAGE[1]:.0%}"),
        ("upper end of the interval / lower, median", ""),
        ("scenarios not judged", f"at most {NOT_JUDGED_MAX:.0%}"),
        ("the aim", ""),
    )
    for (what, aim), *values in zip(aims, *found, strict=True):
        yield what, aim, *values


def _reached(record: Record, system: System, found: Sequence[tuple[Entry, Judgement]]) -> tuple[str, ...]:
    """In the order of those rows."""
    whole, sure = _summary(record, system, found), _sureness(found)
    missing = whole.not_judged / whole.scenarios
    return (
        f"{whole.scenarios}",
        "-" if whole.median_error is None else _error(whole.median_error),
        f"{_fair_share([each for _, each in found], whole):.0%}",
        "-" if sure is None else f"{sure.coverage:.0%}",
        "-" if sure is None else f"{sure.width:.2f}",
        f"{missing:.0%}" + (f": {_not_judged(whole)}" if whole.not_judged else ""),
        _AIM_TEXTS[drawn_aim([each for _, each in found], whole.failed, sure)],
    )


def _fair_share(judgements: Sequence[Judgement], whole: Summary) -> float:
    """The share of all scenarios that were judged, and are at most `FAIR` off."""
    fair = sum(each.counts and abs(each.error) <= FAIR for each in judgements)
    return fair / whole.scenarios if whole.scenarios else 0.0


def _sentence(record: Record, system: System, found: Sequence[tuple[Entry, Judgement]]) -> str:
    """The verdict on chosen scenarios, or on drawn ones; with what came of the intervals."""
    whole, sure = _summary(record, system, found), _sureness(found)
    if record.seed is None:
        return sentence(system, whole) + (f"; {_sure(sure)}" if sure is not None else "")
    return drawn_sentence(system, record.seed, [each for _, each in found], whole, sure)


def drawn_sentence(
    system: System, seed: int, judgements: Sequence[Judgement], whole: Summary, sure: Sureness | None
) -> str:
    """The verdict on scenarios that were drawn."""
    failed = whole.scenarios - len(judgements)
    aim = drawn_aim(judgements, failed, sure)
    fair = _fair_share(judgements, whole)
    missing = whole.not_judged / whole.scenarios if whole.scenarios else 1.0
    median = "unlimited" if whole.median_error is None else _error(whole.median_error)
    goals = f"{COVERAGE[0]:.0%} to {COVERAGE[1]:.0%}"
    why = f" (more than {NOT_JUDGED_MAX:.0%} cannot be judged)" if missing > NOT_JUDGED_MAX else ""
    return (
        f"{NAMES[system]}: {whole.scenarios} scenarios drawn from seed {seed}: median error {median} (aim {GOOD:.0%}),"
        f" {fair:.0%} within {FAIR:.0%} (aim {1 - UNFAIR_MAX:.0%}), {_sure(sure)} (aim {goals}), {missing:.0%} not"
        f" judged (aim at most {NOT_JUDGED_MAX:.0%}: {_not_judged(whole)}); the aim {_AIM_TEXTS[aim]}{why}"
    )


def _sure(sure: Sureness | None) -> str:
    if sure is None:
        return "no interval"
    return (
        f"{sure.coverage:.0%} of the runs in their 80 % interval, whose upper end is {sure.width:.2f} times its lower"
    )


_MEASURED: Final = (
    "process start until every partition is back in the ISR; of a failover, death until another leads; of a rebalance,"
    " first order until all replicas are in sync"
)
_BREAKDOWN: Final = "where the time went, seconds predicted / measured, median of the runs"
_AIM_TEXTS: Final = {
    Aim.HOLDS: "holds",
    Aim.DOES_NOT_HOLD: "does not hold",
    Aim.NOT_SHOWN: "is not shown",
}


def sentence(system: System, found: Summary) -> str:
    """The session's verdict on one system."""
    missing = _not_judged(found)
    aim = f"the aim (median {GOOD:.0%}, worst {FAIR:.0%})"
    if found.median_error is None or found.worst_error is None:
        return f"{NAMES[system]}: none of {found.scenarios} scenarios was judged ({missing}); {aim} is {found.aim}"
    verdict = found.aim.value
    if found.aim is Aim.NOT_SHOWN:
        verdict = f"is not shown: at most {NOT_JUDGED_MAX:.0%} of the scenarios may go without a verdict"
    return (
        f"{NAMES[system]}: median error {_error(found.median_error)}, worst {_error(found.worst_error)}, of "
        f"{found.scenarios} scenarios, {missing}; {aim} {verdict}"
    )


def _error(value: float) -> str:
    return "unlimited" if math.isinf(value) else f"{value:.0%}"


def _not_judged(found: Summary) -> str:
    counts = {"not measurable": found.not_measurable, "with too few runs": found.too_few_runs, "failed": found.failed}
    return ", ".join(f"{number} {what}" for what, number in counts.items() if number) or "all of them judged"


def markdown(record: Record) -> str:
    """docs/model-proof.md."""
    loads = [load for entry in record.tests for load in entry.loads]
    parts = [_INTRODUCTION]
    if loads:
        load = f"load {min(loads):.1f} to {max(loads):.1f} during the runs"
        parts.append(f"Measured with `{record.command}` on {record.machine}; {load}.")
    else:
        parts.append("No session is written down here yet: `python -m bench model`, then the command above.")
    if rows := list(aim_rows(record)):
        parts.append("\n".join(_lines(rows)))
    for system in SYSTEMS:
        found = judgements(record, system)
        if any(entry.system == system for entry in record.tests):
            parts += [f"## {NAMES[system]}", _sentence(record, system, found) + "."]
            parts.append("\n".join(_rows(found)))
            if seconds := list(breakdown_rows(found)):
                parts += [f"{_BREAKDOWN[0].upper()}{_BREAKDOWN[1:]}.", "\n".join(_lines(seconds))]
    if record.calibrations is not None:
        measured = {entry.system for entry in record.calibration_runs}
        constants = [found for system, found in record.calibrations.systems.items() if system in measured]
        parts += ["## The constants", _CONSTANTS, "\n".join(_constants(constants))]
    return "\n\n".join([*parts, _LIMITS]) + "\n"


def _rows(found: Sequence[tuple[Entry, Judgement]]) -> Iterator[str]:
    return _lines([COLUMNS, *(_cells(entry, each) for entry, each in found)])


def _lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table, whose first row are the headings."""
    for number, row in enumerate(rows):
        yield "| " + " | ".join(row) + " |"
        if number == 0:
            yield "|" + "---|" * len(row)


def _constants(calibrations: Sequence[Calibration]) -> Iterator[str]:
    yield "| constant | " + " | ".join(NAMES[each.system] for each in calibrations) + " |"
    yield "|---|" + "---|" * len(calibrations)
    for key in Calibration.model_fields:
        if key not in ("system", "origin", "spread"):
            yield f"| `{key}` | " + " | ".join(_figure(getattr(each, key)) for each in calibrations) + " |"
    for key in Spread.model_fields:
        if key != "origin":
            yield (
                f"| `spread.{key}` | " + " | ".join(_figure(getattr(each.spread, key)) for each in calibrations) + " |"
            )


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4g}"


_INTRODUCTION: Final = f"""# How well does the model predict?

Written by `python -m bench model --docs docs/model-proof.md`, from the JSON of a session. Two brokers or more and a
controller on loopback; one broker is killed, wiped and started again, and timed from its process's start until clients
see it in the ISR of every partition. Each scenario is predicted first: the inventory is captured of the live cluster
(`tierfetch model capture`), and the prediction is in the file before the first run. Then it is run once unmeasured, so
that no leader does it for the first time, and at least {RUNS_MIN} times measured.

The constants come from calibration scenarios (other sizes, partition counts, loads, throttles and latencies), run
just before on the same machine; no test scenario is among them (`bench/model/scenario.py`).

* error: predicted less median measured, in parts of the latter
* spread: slowest less quickest run, in parts of the median; above {SPREAD_MAX:.0%} a scenario is *not measurable*,
  which counts against the model: an unlimited error in the median
* copied: bytes of the topic on the new disk when it has joined, predicted / median measured
* drawn scenarios are those that a seed gives (`python -m bench model --random SEED --count N`), after the constants are
  fixed; none is left out for what came of it. Both systems run the same ones, and Apache Kafka is given everything that
  is drawn: topics, racks, throttles, load, and a tier of the same latency and bandwidth, by a plugin that puts both
  before its own `LocalTieredStorage`. What differs is the policy, which is each system's own
* brokers (of drawn scenarios): 2 to 6; all but the one that is replaced lead in turn. Replicas of a partition are in
  different racks, on loopback that is placement alone
* a broker that lags (of drawn scenarios): it follows everything too, was frozen while the last megabytes were written,
  and copies these while the replaced one starts and copies
* failover (of drawn scenarios): from the death of the broker that leads everywhere until the other one does; the
  session is 2.5 s here, and decides where half of the brokers are dead
* rebalance (of drawn scenarios): a plan of `reassign plan`, carried out by `reassign execute`, from its first order
  until every replica is in sync, pauses between waves included. Each run has a topic of its own, laid out alike
* links, racks, uplinks (of `--networks`): each broker, the controller, the producers and the store are in a network
  namespace of their own, on links with a rate; the brokers of a rack share its uplink, and relays delay what passes
  between racks (`bench/lab/topology.py`). The store is then an S3 server; Apache Kafka, which brings no plugin for one,
  keeps a directory
* where the time went: measured by what brokers log and count (`bench/model/breakdown.py`); what no line says is
  *other*, which of Apache Kafka is all that follows set-up
* 80 %: the interval of the prediction; four of five runs should be in it
* verdict: good up to {GOOD:.0%} either way, fair up to {FAIR:.0%}, else wrong"""

_LIMITS: Final = """## What limits it

* **Other work on the machine.** All processes share its cores; the constants hold for the load under which they were
  measured. With a load of 10 to 20 beside it on two cores a JVM's start took 10 to 25 s in place of 2, and whatever was
  measured a minute before was no guide. Producers are such work too: a broker's start shares two cores with them and
  with the uploads that they cause, which on a machine of its own it would not: those scenarios are predicted short.
* **Retention under a copy.** A follower that begins at the oldest local record while producers write and retention
  deletes is overtaken, sent back to the start, and copies again, once for each deleted segment. The model knows nothing
  of it, so the scenarios under load have no local retention that could do this.
* **A JVM that warms up.** Apache Kafka's first megabytes are slower than its last; here one pace stands for all. Its
  follower's CPU for each GB holds what the JVM compiles meanwhile: a broker that has run for a while needs less.
* **Retries on a clock.** Apache Kafka's follower asks the tier's metadata too early and tries again after a second, and
  a throttled one looks again after a second; the constants are means of that.
* **The page cache** takes every copy of these sizes at once: disks are not part of this proof."""

_CONSTANTS: Final = """As measured in this session; `model/calibration.py` says what each is for. Seconds, bytes
per second, CPU seconds for each GB."""
