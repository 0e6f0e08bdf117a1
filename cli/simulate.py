"""`tierfetch simulate`: one seed line by line, or many seeds with a summary; failures are repeated and shrunk."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from importlib.metadata import version as package_version
from itertools import islice
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.progress import Progress, TimeElapsedColumn
from rich.table import Table

from ..extras import needing
from ..pages import Made
from ..sim.faults import Schedule, UnfitScheduleError
from ..sim.scenarios import REPORTS, SCENARIOS, RunReport, run_seed, shrink_failure
from ..sim.watch import watch_seed
from .local import captured, end_with_parent
from .options import OutputFile, write_text
from .simulate_page import simulate_page

SHRINK_RUNS: Final = 40
SHRUNK_MAX: Final = 2
"""Failures whose schedules are shortened; the others are only named."""

_HELP = """Run the production nodes in a deterministic simulation, under faults chosen by a seed, and judge them.

\b
  tierfetch simulate --seed 17                 one line for each state transition and fault
  tierfetch simulate --seeds 1000 --jobs 2     many seeds, a summary, what failed and how to repeat it
  tierfetch simulate --seeds 100 --html p.html the same as a page
  tierfetch simulate --watch 17                a page that shows the run: simulate-cluster-17.html

The same seed gives the same run, event for event, with the same commit, dependencies and Python version.
"""


@click.command("simulate", help=_HELP)
@click.option("--seed", type=int, help="Run this seed.")
@click.option("--watch", type=int, metavar="SEED", help="Run this seed, and write a page (HTML) that shows the run.")
@click.option("--seeds", type=click.IntRange(1), help="Run this number of seeds.")
@click.option("--start", type=int, default=1, show_default=True, help="The first seed, with --seeds.")
@click.option("--scenario", type=click.Choice(sorted(SCENARIOS)), help="What to run; by default the seed chooses.")
@click.option("--schedule", "schedule_file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="Take faults and actions from this file, not from the seed.")  # fmt: skip
@click.option("--events", "events_file", type=OutputFile(), help="Write the lines of one seed to this file.")
@click.option("--logs", is_flag=True, help="Show the nodes' own log lines too.")
@click.option("--json", "json_file", type=OutputFile(), help="Write all reports to this file, as JSON.")
@click.option("--html", "html_file", type=OutputFile(), help="Write a page to this file: verdict, failures, faults.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes to run seeds in.")
@click.option("--time-limit", type=click.FloatRange(0), help="Begin no further seeds after this many seconds.")
@click.option("--shrink/--no-shrink", default=True, show_default=True, help="Shorten the schedule of a failure.")
def simulate(
    seed: int | None,
    watch: int | None,
    seeds: int | None,
    start: int,
    scenario: str | None,
    schedule_file: Path | None,
    events_file: Path | None,
    logs: bool,
    json_file: Path | None,
    html_file: Path | None,
    jobs: int,
    time_limit: float | None,
    shrink: bool,
) -> None:
    _check(seed, seeds, watch, describes_one=events_file is not None or logs)
    schedule = _schedule(schedule_file)
    try:
        if watch is not None:
            reports = [_watch(watch, scenario, schedule)]
        elif seed is not None:
            reports = [_one(seed, scenario, schedule, events_file, logs)]
        else:
            assert seeds is not None, "checked above"
            one = partial(run_seed, scenario=scenario, schedule=schedule)
            reports = _many(one, range(start, start + seeds), jobs, time_limit)
    except UnfitScheduleError as error:
        raise click.UsageError(f"{schedule_file} is for another scenario, or for other options: {error}") from error
    if seeds is not None:
        if not reports:
            raise click.ClickException(f"no seed was run: the time limit of {time_limit} s was over before the first")
        _print_summary(reports, seeds)
    _write(reports, seeds or 1, json_file, html_file)
    failed = [report for report in reports if report.has_failed]
    for number, report in enumerate(failed):
        _explain(report, schedule_file, shrinks=shrink and number < SHRUNK_MAX)
    if failed:
        raise SystemExit(1)


def _write(reports: list[RunReport], seeds: int, json_file: Path | None, html_file: Path | None) -> None:
    if json_file is not None:
        write_text(json_file, REPORTS.dump_json(reports, indent=1).decode())
    if html_file is not None:
        with needing("model"):
            text = simulate_page(reports, seeds, Made.now())
        write_text(html_file, text)


def _check(seed: int | None, seeds: int | None, watch: int | None, *, describes_one: bool) -> None:
    if sum(each is not None for each in (seed, seeds, watch)) != 1:
        raise click.UsageError("give one of --seed, --seeds and --watch")
    if seed is None and describes_one:
        raise click.UsageError("--events and --logs describe one run: give --seed")


def _schedule(path: Path | None) -> Schedule | None:
    if path is None:
        return None
    try:
        return Schedule.from_json(path.read_bytes())
    except ValueError as error:
        raise click.UsageError(f"{path} is no schedule: {error}") from error


def _one(
    seed: int, scenario: str | None, schedule: Schedule | None, events_file: Path | None, records_logs: bool
) -> RunReport:
    with ExitStack() as stack:
        file = stack.enter_context(events_file.open("w")) if events_file is not None else None
        sink = partial(click.echo, file=file)
        report = run_seed(seed, scenario, schedule=schedule, sink=sink, records_logs=records_logs)
    click.echo(
        f"seed {seed} ({report.scenario}): {'FAILED' if report.has_failed else 'passed'}; "
        f"{report.virtual_s:.1f} virtual seconds in {report.real_s:.1f}, {report.events} events; "
        f"records acknowledged {report.records_acknowledged}, checked {report.records_checked}, "
        f"excused {report.records_excused}; digest {report.digest}"
    )
    return report


def _watch(seed: int, scenario: str | None, schedule: Schedule | None) -> RunReport:
    """Run a seed, and write its page."""
    report, text = watch_seed(seed, scenario, schedule, Made.now())
    path = Path(f"simulate-{report.scenario}-{seed}.html")
    write_text(path, text)
    click.echo(f"seed {seed} ({report.scenario}): {'FAILED' if report.has_failed else 'passed'}; see {path}")
    return report


def _many(one: Callable[[int], RunReport], seeds: range, jobs: int, time_limit_s: float | None) -> list[RunReport]:
    """In the order of the seeds."""
    console = Console(stderr=True)
    reports: list[RunReport] = []
    console.print(f"seeds {seeds[0]} to {seeds[-1]}, {jobs} processes")
    with Progress(*Progress.get_default_columns(), TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task("seeds", total=len(seeds))
        with closing(_reports(one, seeds, jobs, time_limit_s)) as found:
            for report in found:
                reports.append(report)
                if report.has_failed:
                    failure = f"seed {report.seed} ({report.scenario}): {report.failures[0]}"
                    progress.console.print(failure, style="red", markup=False)
                progress.advance(task)
    return sorted(reports, key=lambda report: report.seed)


def _reports(
    one: Callable[[int], RunReport], seeds: range, jobs: int, time_limit_s: float | None
) -> Generator[RunReport, None, None]:
    """Yield reports as they come; at most two a process are under way, so that the time limit holds."""
    deadline_s = time.monotonic() + time_limit_s if time_limit_s is not None else float("inf")
    if jobs == 1:
        for seed in seeds:
            if time.monotonic() > deadline_s:
                return
            yield one(seed)
        return
    with _workers(jobs) as pool:
        left, running = iter(seeds), set[Future[RunReport]]()
        while True:
            wanted = 2 * jobs - len(running) if time.monotonic() <= deadline_s else 0
            with _interrupts_held_back():  # also from the processes that are started now
                running |= {pool.submit(one, seed) for seed in islice(left, wanted)}
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()


@contextmanager
def _workers(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end at once when the work is given up: a seed takes a minute."""
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), end_with_parent()) as pool:
        try:
            yield pool
        except BaseException:
            for process in multiprocessing.active_children():
                process.terminate()
            raise


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """A terminal sends Ctrl-C to children too, which would each show a trace: this process alone answers for them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _print_summary(reports: list[RunReport], seeds: int) -> None:
    """`seeds`: how many were asked for."""
    virtual_s, real_s = sum(r.virtual_s for r in reports), sum(r.real_s for r in reports)
    events = sum(report.events for report in reports)
    table = Table(title="simulation", show_header=False)
    by_scenario = Counter(report.scenario for report in reports)
    run_text = str(len(reports)) if len(reports) == seeds else f"{len(reports)} of {seeds}"
    table.add_row("seeds", f"{run_text} ({', '.join(f'{name} {n}' for name, n in sorted(by_scenario.items()))})")
    table.add_row("first to last", f"{reports[0].seed} to {reports[-1].seed}")
    table.add_row("failures", str(sum(report.has_failed for report in reports)))
    table.add_row("virtual seconds", f"{virtual_s:.0f}")
    table.add_row("real seconds, of all processes", f"{real_s:.0f}, {virtual_s / max(real_s, 1e-9):.1f}x")
    table.add_row("events", f"{events}, {real_s / max(events, 1) * 1e6:.0f} us each")
    table.add_row("virtual hours in a minute of one core", f"{virtual_s / max(real_s, 1e-9) / 60:.2f}")
    table.add_row("records acknowledged by all in sync", str(sum(report.records_acknowledged for report in reports)))
    table.add_row("records checked", str(sum(report.records_checked for report in reports)))
    table.add_row("records excused", str(sum(report.records_excused for report in reports)))
    injected, changed = Counter[str](), Counter[str]()
    for report in reports:
        injected.update(report.injected)
        changed.update(report.changed)
    for kind, count in changed.most_common():
        table.add_row(f"administrator: {kind}", str(count))
    for kind, count in injected.most_common():
        if not kind.endswith("skipped"):
            table.add_row(f"faults: {kind}", str(count))
    Console().print(table)


def _explain(report: RunReport, schedule_file: Path | None, *, shrinks: bool) -> None:
    """What failed, and how to repeat it."""
    command = f"tierfetch simulate --scenario {report.scenario} --seed {report.seed}"
    if schedule_file is not None:
        command += f" --schedule {schedule_file}"
    click.echo(f"\nseed {report.seed} ({report.scenario}) failed at commit {_commit()}; repeat it with\n  {command}")
    for failure in report.failures:
        click.echo(f"  {failure}")
    if report.leading_up:
        click.echo("before the first of them:")
    for line in report.leading_up:
        click.echo(f"  {line}")
    click.echo("options: " + ", ".join(f"{key}={value}" for key, value in report.options.items()))
    if shrinks and (report.schedule.faults or report.schedule.actions):
        _shrink(report)


def _shrink(report: RunReport) -> None:
    """A file with the shortest schedule that fails."""
    shrunk = shrink_failure(report, runs_max=SHRINK_RUNS)
    if shrunk is None:
        click.echo(
            "it did not fail again with the same faults: the run depends on more than its seed, and that is a bug"
        )
        return
    path = Path(f"simulate-{report.scenario}-{report.seed}.json")
    write_text(path, shrunk.schedule.to_json())
    click.echo(
        f"with {len(shrunk.schedule.faults)} of its {len(report.schedule.faults)} faults and "
        f"{len(shrunk.schedule.actions)} of its {len(report.schedule.actions)} actions it still fails "
        f"(found in {shrunk.runs} runs): --schedule {path}"
    )
    for each in (*shrunk.schedule.faults, *shrunk.schedule.actions):
        click.echo(f"  {each}")


def _commit() -> str:
    """The checkout's, or else the version of the package."""
    command = ["git", "describe", "--always", "--dirty"]
    described = ""
    with suppress(OSError):  # where there is no git
        described = captured(command, cwd=Path(__file__).parent).stdout.strip()
    return described or f"of version {package_version('tierfetch')}"
