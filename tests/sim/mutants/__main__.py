r"""`python -m tierfetch.tests.sim.mutants`: how much of what could go wrong in the product would be noticed.

Draws a sample of all mutants by a seed, runs each against the seeds of the simulator and the unit tests that reach it,
and prints what convicted them, with the survivors. The verdicts are a record, a line of JSON each: what was judged
before is not judged again, on whatever machine, unless its function has changed, or it survived and `--again` is given.
No source is changed. Before the first mutant it is recorded what each seed and each test reaches: that takes long, and
what holds for later sources is kept in .mutants (`coverage.py`).

    --sample 400 --seed 1     the figures of the first 400 mutants that seed 1 draws; a larger sample begins with them
    --record FILE             continue this record (without it .mutants/record.jsonl)
    --page FILE               write the page of the sample from the record, too
    --jobs 2                  mutants at a time: one a core
    --minutes 10              begin no mutant after this time
    --list                    the survivors and the figures of the sample, from what is known: judges nothing, and
                              writes nothing, unless --page is given
    --only log/replica rlm    those below these paths alone
    --tests tests/log         unit tests of these folders alone: less to record, fewer that convict
    --seeds-only              ask the simulator alone: the unit tests are asked by a later run without it
    --mutant ID               this one, with what each side said

The published sample is continued by

    python -m tierfetch.tests.sim.mutants --seed 2026 --seeds 20 --seeds-each 8 --tests-s 40 \
        --record tests/sim/mutants/record.jsonl --page docs/mutants.md
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from ast import parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from .coverage import TEST_FOLDERS, Group, Reach, group_of_seeds, group_of_tests, missing_units, recorded, sources_of
from .equivalent import FILE, marked, parse_marks
from .figures import Share, figures_of, grouped, survivor_lines, survivors
from .generate import Mutant, diff_of, fields_with_defaults, mutants_of, statement_lines
from .judging import Court, Effort, lane, preload
from .page import page
from .programs import ROOT
from .record import DUE, SIDES, Verdict, drawn, of_sample, parse_record, placed, record_text


def arguments(texts: Sequence[str]) -> Namespace:
    parser = ArgumentParser("python -m tierfetch.tests.sim.mutants", description=__doc__)
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.add_argument("--sample", type=int, default=400, help="how many mutants are drawn (400)")
    parser.add_argument("--seed", type=int, default=1, help="what they are drawn by (1)")
    parser.add_argument("--seeds", type=int, default=60, help="the simulator's seeds, from 1 on (60)")
    parser.add_argument("--seeds-each", type=int, default=20, help="no more of them for one mutant (20)")
    parser.add_argument("--tests-s", type=float, default=90.0, help="CPU seconds of unit tests for one mutant (90)")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time (1)")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin none after this time")
    parser.add_argument("--only", nargs="+", default=[""], help="only mutants in files below these paths")
    parser.add_argument("--tests", nargs="+", default=TEST_FOLDERS, help="only unit tests of these folders")
    parser.add_argument("--mutant", help="this mutant alone, by its id")
    parser.add_argument("--seeds-only", action="store_true", help="ask the simulator alone; unit tests are due then")
    parser.add_argument("--again", action="store_true", help="judge again what survived")
    parser.add_argument("--list", action="store_true", help="judge nothing, print what is known")
    parser.add_argument("--record", type=Path, help="the verdicts: what it lacks is judged, and added")
    parser.add_argument("--page", type=Path, help="write what the sample came to there, as a page of the docs")
    parser.add_argument("--directory", type=Path, default=ROOT / ".mutants", help="what reaches which line")
    return parser.parse_args(texts)


class Command:
    """One run of the command."""

    def __init__(self, options: Namespace, console: Console) -> None:
        self._options, self._console = options, console
        self._deadline_s = time.monotonic() + options.minutes * 60
        self._sources = sources_of()
        self._defaults = fields_with_defaults({file: parse(source) for file, source in self._sources.items()})
        every = [each for file, source in self._sources.items() for each in mutants_of(file, source, self._defaults)]
        self._mutants = {mutant.id: mutant for mutant in every}
        self._marked, stale = marked(parse_marks(FILE.read_text()), every)
        for mark in stale:
            console.print(f"its function has changed, look at it again: {mark.id}", style="yellow", markup=False)
        self._record: Path = options.record or options.directory / "record.jsonl"
        self._asks = ("simulator",) if options.seeds_only else tuple(SIDES)
        self._lanes: list[int] = []

    def run(self) -> None:
        known = self._known()
        sample = self._sample(known)
        left = [] if self._options.list else [each for each in sample if self._is_due(each, known.get(each.id))]
        seeds: list[Reach] = []
        if left:
            preload()
            seeds, tests = self._recorded()
            effort = Effort(self._options.seeds_each, self._options.tests_s)
            before = {each.id: self._asked_again(found) for each in left if (found := known.get(each.id)) is not None}
            court = Court(self._sources, self._defaults, seeds, tests, effort, _commit(), before, self._asks)
            try:
                self._judge(left, court)
            finally:
                known = self._sorted()
        elif self._record.exists() and (self._options.page or not self._options.list):
            known = self._sorted()
        if self._options.page:
            self._options.page.write_text(page(known.values(), self._options, parse_marks(FILE.read_text())))
        self._print(sample, known, seeds)

    def _known(self) -> dict[str, Verdict]:
        """Return what the record says of the mutants of today, by id, with those of the sample marked as such."""
        verdicts = parse_record(self._record.read_text()) if self._record.exists() else []
        known = {each.id: each for each in placed(verdicts, self._mutants, self._change_of)}
        before = {each.id for each in known.values() if each.sample == self._options.seed}
        sample = drawn(self._mutants.values(), self._options.sample, self._options.seed, before)
        marked_so = of_sample(known.values(), {mutant.id for mutant in sample}, self._options.seed)
        return {each.id: each for each in marked_so}

    def _asked_again(self, verdict: Verdict) -> Verdict:
        """Return what is known of a mutant that is judged: of one that is judged again not what is asked once more."""
        if not (self._options.again or self._options.mutant):
            return verdict
        return replace(verdict, **dict.fromkeys(self._asks, DUE))

    def _sorted(self) -> dict[str, Verdict]:
        """Write the record as it is for the mutants of today, and return what it says."""
        known = self._known()
        self._record.write_text(record_text(known.values()))
        return known

    def _change_of(self, mutant: Mutant) -> list[str]:
        return diff_of(self._sources[mutant.file], mutant, self._defaults)

    def _sample(self, known: Mapping[str, Verdict]) -> list[Mutant]:
        if self._options.mutant:
            if self._options.mutant not in self._mutants:
                raise SystemExit(f"{self._options.mutant}: there is no such mutant today")
            return [self._mutants[self._options.mutant]]
        chosen = [each for each in self._mutants.values() if each.file.startswith(tuple(self._options.only))]
        self._console.print(f"{len(chosen):,} mutants; a sample of {self._options.sample} by seed {self._options.seed}")
        of_sample = {each.id for each in known.values() if each.sample == self._options.seed}
        return drawn(chosen, self._options.sample, self._options.seed, of_sample)

    def _recorded(self) -> tuple[list[Reach], list[Reach]]:
        """Return what the seeds and the tests reach."""
        began_s = time.monotonic()
        directory: Path = self._options.directory
        directory.mkdir(parents=True, exist_ok=True)
        folders = () if self._options.seeds_only else self._options.tests
        groups = [group_of_seeds(range(1, self._options.seeds + 1)), *map(group_of_tests, folders)]
        missing = [group for group in groups if missing_units(group, directory)]
        written = {group.name: _written_at(group, directory) for group in missing}
        for shares in [missing[number :: self._options.jobs] for number in range(self._options.jobs)]:
            self._fork(partial(_record_groups, shares, directory))
        self._follow(
            "recording",
            len(missing),
            lambda: sum(_written_at(group, directory) != written[group.name] for group in missing),
        )
        seeds, *tests = [recorded(group, directory) for group in groups]
        every = [each for group in tests for each in group]
        took_s = time.monotonic() - began_s
        self._console.print(f"{len(seeds)} seeds and {len(every):,} tests; recorded in {took_s:.0f} s")
        return seeds, every

    def _judge(self, left: Sequence[Mutant], court: Court) -> None:
        """Judge mutants in processes that append to the record."""
        lines = _line_count(self._record)
        for number in range(self._options.jobs):
            self._fork(partial(lane, court, left[number :: self._options.jobs], self._record, self._deadline_s))
        self._follow("mutants", len(left), lambda: _line_count(self._record) - lines)

    def _is_due(self, mutant: Mutant, verdict: Verdict | None) -> bool:
        if mutant.id in self._marked:
            return False
        if verdict is None or any(getattr(verdict, side) == DUE for side in self._asks):
            return True
        is_survivor = verdict.is_reached and not verdict.is_convicted
        return (self._options.again and is_survivor) or self._options.mutant is not None

    def _fork(self, program: Callable[[], None]) -> None:
        """Run a program in a process beside this one."""
        if pid := os.fork():
            self._lanes.append(pid)
            return
        status = 1
        try:
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what it has forked is ended, too
            program()
            status = 0
        except (KeyboardInterrupt, SystemExit):
            pass
        except BaseException as error:  # noqa: BLE001 - nothing may run on as a second parent
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
        finally:
            os._exit(status)

    def _follow(self, name: str, total: int, done: Callable[[], int]) -> None:
        """Show how far the processes are, until they have ended. Raise RuntimeError if one failed."""
        failed = 0
        try:
            with _progress(self._console) as progress:
                task = progress.add_task(name, total=total)
                while self._lanes:
                    time.sleep(0.2)
                    for pid in list(self._lanes):
                        ended, status = os.waitpid(pid, os.WNOHANG)
                        if ended:
                            self._lanes.remove(pid)
                            failed += status != 0
                    progress.update(task, completed=done())
                    _refresh(progress)
        finally:
            for pid in self._lanes:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
                os.waitpid(pid, 0)
        if failed:
            raise RuntimeError(f"{name}: {failed} processes failed; they have said above why")

    def _print(self, sample: Sequence[Mutant], known: Mapping[str, Verdict], seeds: Sequence[Reach]) -> None:
        verdicts = [found for each in sample if (found := known.get(each.id)) is not None]
        for verdict in survivors(verdicts, self._marked):
            self._console.print("\n".join(survivor_lines(verdict)), markup=False, highlight=False)
        if self._options.mutant and verdicts:
            self._console.print(verdicts[0].to_json(), markup=False)
        judged = sum(not each.is_due for each in verdicts)
        table = Table(title=f"{judged} of a sample of {len(sample)} mutants", show_header=False)
        for row in figures_of(verdicts, self._marked).rows():
            table.add_row(*row)
        if seeds:
            table.add_row(f"functions that {len(seeds)} seeds reach", str(reached_functions(self._sources, seeds)))
        self._console.print(table)
        by_kind = Table("operator", "convicted, of those reached", title="by operator")
        counted = [each for each in verdicts if each.id not in self._marked]
        for name, figures in grouped(counted, lambda each: each.operator):
            by_kind.add_row(name, str(figures.either))
        self._console.print(by_kind)


def _commit() -> str:
    """Return the commit of the checkout; nothing in one without a history."""
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def _record_groups(groups: Sequence[Group], directory: Path) -> None:
    for group in groups:
        recorded(group, directory)


def _written_at(group: Group, directory: Path) -> int:
    """Return when a group's file was written, in ns; 0 if it is not there."""
    path = group.file(directory)
    return path.stat().st_mtime_ns if path.exists() else 0


def reached_functions(sources: dict[str, str], seeds: Iterable[Reach]) -> Share:
    """Return how many functions of the product the seeds enter, of all."""
    reached: dict[str, int] = {}
    for reach in seeds:
        for file, bits in reach.lines.items():
            reached[file] = reached.get(file, 0) | bits
    functions = [
        (file, lines) for file, source in sources.items() for lines in statement_lines(source).values() if lines
    ]
    return Share(
        sum(any(reached.get(file, 0) >> line & 1 for line in lines) for file, lines in functions), len(functions)
    )


def _line_count(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _progress(console: Console) -> Progress:
    """Return a bar without a thread: this process forks."""
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, auto_refresh=False)


def _refresh(progress: Progress) -> None:
    if progress.console.is_terminal:
        progress.refresh()


def main(texts: Sequence[str]) -> int:
    with suppress(KeyboardInterrupt):
        Command(arguments(texts), Console()).run()
        return 0
    return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
