"""`python -m bench model`: predict replacements, run them, say how well the model did."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import click
from rich.console import Console

from tierfetch.cli.options import table_console
from tierfetch.model import Calibrations, MachineRates, System

from ..lab.network import refusal
from ..measure import command_line
from ..options import exit_on, figures_option
from ..systems import can_run_kafka
from .draw import drawn
from .judge import RUNS_MIN
from .live import LiveLabs
from .progress import Left, budget_rows, left, time_rows
from .record import Record
from .report import markdown, print_tables, table_of
from .scenario import CALIBRATION, NETWORKS, TESTS, Scenario
from .session import Session
from .stage import Labs

CALIBRATION_RUNS = 3
DRAWN = 30
FREE_OPTIONS = ("--resume", "--again")
"""Options with which a command is still the same one."""


def _check_folder(_: click.Context, __: click.Parameter, file: Path | None) -> Path | None:
    """BadParameter if a file that is written at the end of a session has no folder: that is hours away."""
    if file is not None and not file.parent.is_dir():
        raise click.BadParameter(f"there is no folder {file.parent}")
    return file


@click.command("model")
@click.option("--against", type=click.Choice(["kafka", "nothing", "only-kafka"]), default="kafka", show_default=True)
@click.option("--runs", type=click.IntRange(min=1), default=RUNS_MIN, show_default=True, help="Of each test scenario.")
@click.option(
    "--calibration-runs", type=click.IntRange(min=1), default=CALIBRATION_RUNS, show_default=True, help="Of each."
)
@click.option("--scenarios", "wanted", multiple=True, metavar="TEXT", help="Only test scenarios whose name has this.")
@click.option(
    "--random", "seed", type=int, metavar="SEED", help="Draw the test scenarios from this seed, not those of the list."
)
@click.option(
    "--count", type=click.IntRange(min=1, max=1000), default=DRAWN, show_default=True, help="So many of them."
)
@click.option(
    "--links-mb-s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="RATE",
    help="Test scenarios with each broker in a network namespace, on links of this rate (as root).",
)
@click.option(
    "--networks",
    is_flag=True,
    help="Test scenarios in which links limit: 6 to 12 brokers in racks with uplinks, in network namespaces (as root).",
)
@figures_option("model")
@click.option("--resume", is_flag=True, help="Continue from what the file has, also from what another command left.")
@click.option("--again", is_flag=True, help="Begin again, also where this command was stopped before its end.")
@click.option(
    "--calibration",
    type=click.Path(path_type=Path, exists=True),
    help="Take these constants, and run no calibration scenario.",
)
@click.option(
    "--calibrate",
    "measured",
    multiple=True,
    metavar="TEXT",
    help="Run only calibration scenarios whose name has this, and no other: the constants that they give are measured "
    "again, the rest stays.",
)
@click.option(
    "--keep-calibration",
    type=click.Path(path_type=Path),
    callback=_check_folder,
    help="Write the measured constants here.",
)
@click.option("--docs", type=click.Path(path_type=Path), help="Run nothing: write what the file has as this document.")
@click.option(
    "--then-docs",
    type=click.Path(path_type=Path),
    callback=_check_folder,
    help="When all was run, write it as this document.",
)
@click.pass_obj
def main(
    labs: Labs | None,
    against: str,
    runs: int,
    calibration_runs: int,
    wanted: tuple[str, ...],
    seed: int | None,
    count: int,
    links_mb_s: float | None,
    networks: bool,
    path: Path,
    resume: bool,
    again: bool,
    calibration: Path | None,
    measured: tuple[str, ...],
    keep_calibration: Path | None,
    docs: Path | None,
    then_docs: Path | None,
) -> None:
    """How long replacing a broker takes, predicted and then measured, for tierfetch and Apache Kafka 4.3.0.

    \b
      python -m bench model                                      everything, about an hour
      python -m bench model --against nothing --scenarios tier   some of ours
      python -m bench model --random 7 --then-docs PATH          the proof: 30 scenarios drawn, not chosen, two hours
      python -m bench model --networks                           where racks' uplinks limit (drawn: with --random)
      python -m bench model --random 7 --links-mb-s 20           where each broker's link limits
      python -m bench model --calibrate c-waves                  one constant again: what a wave takes to begin
      python -m bench model --docs docs/model-proof.md           the document, from the last session's file

    How long each scenario will take is said before, and what is predicted of it is in the JSON file before its first
    run. The file is rewritten after every run: a session that was stopped (Ctrl-C, SIGTERM) says what is left, and the
    same command continues with the next run.
    """
    console = table_console()
    exit_on(signal.SIGTERM, signal.SIGHUP)
    if docs is not None:
        _document(path, docs, console)
        return
    _check_choice(wanted, seed, links_mb_s, measured, networks=networks)
    constants = _chosen(measured, CALIBRATION)
    scenarios = [] if measured else _wished(wanted, seed, count, links_mb_s, networks=networks)
    _check_networks(scenarios)
    record = _opened(path, console, resume=resume, again=again)
    _check_same(record, seed, scenarios)
    record.seed = seed
    if calibration is not None:
        record.calibrations = Calibrations.read(calibration)
    labs = LiveLabs() if labs is None else labs
    works = []
    for system in _systems(against, console):
        session = Session(system, record, _machine(record, labs, console), console, labs)
        is_calibrated = not measured and (calibration is not None or session.is_tested)
        works.append(Work(session, [] if is_calibrated else constants, calibration_runs, scenarios, runs))
    _carry_out(record, works, console)
    if keep_calibration is not None and record.calibrations is not None:
        record.calibrations.write(keep_calibration)
    console.print(f"Figures: {path}")
    if then_docs is not None:
        _document(path, then_docs, console)


@dataclass(frozen=True, slots=True)
class Work:
    """What a session has to run: scenarios that give the constants, and then those that judge the model."""

    session: Session
    constants: Sequence[Scenario]
    constant_runs: int
    scenarios: Sequence[Scenario]
    runs: int

    def do(self) -> None:
        if self.constants:
            self.session.calibrate(self.constant_runs, self.constants)
        self.session.test(self.scenarios, self.runs)

    @property
    def left(self) -> Left:
        record = self.session.record
        wanted = dict.fromkeys(self.constants, self.constant_runs) | dict.fromkeys(self.scenarios, self.runs)
        return left([*record.calibration_runs, *record.tests], self.session.system, wanted)


def _carry_out(record: Record, works: Sequence[Work], console: Console) -> None:
    """All that is left: first how long it will take, and then what came of it; if it is stopped, what is left then."""
    console.print(table_of(budget_rows([each.left for each in works]), "how long it will take"))
    with _saying_what_is_left(record, works, console):
        for work in works:
            work.do()
    print_tables(record, console, max((each.runs for each in works), default=1))
    console.print(table_of(time_rows([*record.calibration_runs, *record.tests]), "where the time of the session went"))


def _document(path: Path, docs: Path, console: Console) -> None:
    docs.write_text(markdown(_read(path)))
    console.print(f"written: {docs}")


def _machine(record: Record, labs: Labs, console: Console) -> MachineRates:
    """Return what the machine can do: as it was measured when the session began, or now."""
    if record.rates is None:
        directory = record.path.parent
        with console.status("the machine: disk, loopback, checksums"):
            record.rates = labs.machine(directory if directory.exists() else Path("."))
    return record.rates


def _opened(path: Path, console: Console, *, resume: bool, again: bool) -> Record:
    """Return the session to continue: that of the file, if it is wished or was stopped before its end; or a new one."""
    if path.exists() and not again:
        found = _read(path) if resume else _stopped(path)
        if found is not None:
            console.print(f"{path}: continues what was begun [dim](--again begins again)[/]", highlight=False)
            found.continued()
            return found
    return Record(path, command_line())


def _stopped(path: Path) -> Record | None:
    """Return the session of the file if it was stopped before its end. UsageError if that is another command's."""
    try:
        found = Record.read(path)
    except (OSError, ValueError, KeyError):
        return None
    if found.is_finished:
        return None
    if _same(found.command) != _same(command_line()):
        raise click.UsageError(
            f"{path} has a session that was stopped, of `{found.command}`: give another --json, --resume to continue"
            " it with these options, or --again to begin again"
        )
    return found


def _same(command: str) -> str:
    return " ".join(each for each in command.split() if each not in FREE_OPTIONS)


@contextmanager
def _saying_what_is_left(record: Record, works: Sequence[Work], console: Console) -> Iterator[None]:
    """If the block is interrupted: by Ctrl-C, or by a signal that ends it. Otherwise the session has ended."""
    try:
        yield
        record.is_finished = True
        record.write()
    except (KeyboardInterrupt, SystemExit):
        record.write()
        console.print("[yellow]Stopped; the same command continues. Left:[/]")
        for work in works:
            console.print(f"  {work.left.text}", highlight=False)
        raise


def _check_networks(scenarios: Sequence[Scenario]) -> None:
    """ClickException if this machine cannot make the networks that scenarios need."""
    if any(each.topology is not None for each in scenarios) and (why := refusal()):
        raise click.ClickException(f"networks that limit cannot be made here: {why}")


def _wished(
    wanted: tuple[str, ...], seed: int | None, count: int, links_mb_s: float | None, *, networks: bool
) -> list[Scenario]:
    """Return the test scenarios of these options. UsageError."""
    found = _chosen(wanted, NETWORKS if networks else TESTS) if seed is None else drawn(seed, count, networks=networks)
    return [replace(each, links_mb_s=each.links_mb_s or links_mb_s) for each in found]


def _check_choice(
    wanted: Sequence[str], seed: int | None, links_mb_s: float | None, measured: Sequence[str], *, networks: bool
) -> None:
    """UsageError if options exclude each other."""
    if seed is not None and wanted:
        raise click.UsageError("--scenarios chooses, --random draws: give one")
    if networks and links_mb_s is not None:
        raise click.UsageError("--networks has links of its own rates: give --links-mb-s without it")
    if measured and (wanted or seed is not None or links_mb_s is not None or networks):
        raise click.UsageError(
            "--calibrate measures constants and judges nothing: leave out --scenarios and --random,"
            " and --networks and --links-mb-s too"
        )


def _check_same(record: Record, seed: int | None, scenarios: Sequence[Scenario]) -> None:
    """UsageError if the session in the file is another one."""
    if record.tests and record.seed != seed:
        raise click.UsageError(
            f"{record.path} has a session of {_seed_text(record.seed)}: give another --json, or the same seed"
        )
    now = {each.name: each for each in scenarios}
    for entry in record.tests:
        if now.get(entry.scenario.name, entry.scenario) != entry.scenario:
            raise click.UsageError(
                f"{record.path} has another {entry.scenario.name!r} ({entry.scenario.text}): give another --json, or"
                " the same --networks or --links-mb-s"
            )


def _seed_text(seed: int | None) -> str:
    return "chosen scenarios" if seed is None else f"seed {seed}"


def _read(path: Path) -> Record:
    try:
        return Record.read(path)
    except (OSError, ValueError, KeyError) as error:
        raise click.ClickException(f"{path} is no record of a session: {error}") from None


def _chosen(wanted: Sequence[str], among: Sequence[Scenario]) -> list[Scenario]:
    found = [scenario for scenario in among if not wanted or any(text in scenario.name for text in wanted)]
    if not found:
        names = "\n  ".join(scenario.name for scenario in among)
        raise click.UsageError(f"no scenario has {' or '.join(wanted)} in its name:\n  {names}")
    return found


def _systems(against: str, console: Console) -> list[System]:
    systems: list[System] = [] if against == "only-kafka" else ["tierfetch"]
    return [*systems, "kafka"] if against != "nothing" and can_run_kafka(console) else systems
