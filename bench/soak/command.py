"""`python -m bench soak --minutes N`: three brokers and a controller as processes, busy, one broker restarted at times.

The verdict is on what lives throughout: the controller, and all brokers but the last, which is the one that restarts.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from tierfetch.cli.local import LocalCluster, LocalQuorum, TierSettings, free_ports
from tierfetch.cli.options import table_console

from ..lab.kafka import CONTROLLER_ID
from ..measure import command_line, commit, machine
from ..options import exit_on, figures_option
from .probe import Node, quantile
from .verdict import MIB, SAMPLES_MIN, Growth, Sample, growths, latency_growths
from .work import Work

BROKERS: Final = (1, 2, 3)
RESTARTED: Final = BROKERS[-1]
CONFIGS: Final = {
    "log.retention.check.interval.ms": "5000",
    "log.cleaner.backoff.ms": "5000",
    "log.segment.delete.delay.ms": "1000",
    "producer.id.expiration.ms": "120000",
}
SAMPLES_WANTED: Final = 60
"""A minute apart, or closer in a short run."""


@click.command("soak")
@click.option("--minutes", type=click.FloatRange(min=1), default=60.0, show_default=True)
@click.option("--records-per-s", type=click.FloatRange(min=1), default=100.0, show_default=True)
@click.option("--restart-minutes", type=click.FloatRange(min=0.2), default=5.0, show_default=True)
@figures_option("soak")
def main(minutes: float, records_per_s: float, restart_minutes: float, path: Path) -> None:
    """A long life in short: does a cluster that works grow, or become slow? Exit code 1 if it does."""
    exit_on(signal.SIGTERM)
    console = table_console()
    with tempfile.TemporaryDirectory(prefix="tierfetch-soak-", ignore_cleanup_errors=True) as base:
        soak = _Soak(Path(base), minutes * 60, records_per_s, restart_minutes * 60, path)
        soak.run(console)
    leaks = _tell(console, soak)
    console.print(f"Figures: {path}")
    sys.exit(1 if leaks or soak.errors else 0)


class _Soak:
    """One run. `samples` are by process, `minutes` the rows of the table."""

    def __init__(self, base: Path, length_s: float, records_per_s: float, restart_s: float, path: Path) -> None:
        self.samples: dict[str, list[Sample]] = {}
        self.rows: list[dict[str, float]] = []
        self.errors: list[str] = []
        self._base = base
        self._length_s = length_s
        self._records_per_s = records_per_s
        self._restart_s = restart_s
        self._interval_s = min(60.0, length_s / SAMPLES_WANTED)
        self._path = path

    def run(self, console: Console) -> None:
        metrics_port = free_ports(1)[0]
        tier = TierSettings("local", {"dir": str(self._base / "tier")})
        with LocalQuorum(self._base, 1, first_id=CONTROLLER_ID, configs={"metrics.port": str(metrics_port)}) as quorum:
            controllers = quorum.bootstrap_controllers
            with LocalCluster(self._base, BROKERS, tier=tier, configs=CONFIGS, controllers=controllers) as cluster:
                url = f"http://127.0.0.1:{metrics_port}/metrics"
                nodes = [Node("controller", quorum.process(CONTROLLER_ID).pid, url)]
                nodes += [
                    Node(f"broker {id_}", cluster.process(id_).pid, cluster.metrics_url(id_))
                    for id_ in BROKERS
                    if id_ != RESTARTED
                ]
                with Work(cluster.bootstrap_servers, self._records_per_s, len(BROKERS)) as work, _bar(console) as bar:
                    self._watch(cluster, nodes, work, bar, bar.add_task("soak", total=self._length_s))
        self.errors = work.errors

    def _watch(self, cluster: LocalCluster, nodes: Sequence[Node], work: Work, bar: Progress, task: TaskID) -> None:
        began = time.monotonic()
        look_s, restart_s = self._interval_s, self._restart_s
        while (now_s := time.monotonic() - began) < self._length_s:
            if now_s >= restart_s:
                restart_s += self._restart_s
                cluster.stop(RESTARTED)
                cluster.start(RESTARTED)
                cluster.wait_serving(RESTARTED)
            if now_s >= look_s:
                look_s += self._interval_s
                self._look(now_s, nodes, work)
                bar.update(task, completed=now_s, description=_line(self.rows[-1]))
                if not bar.console.is_terminal:
                    bar.console.print(_line(self.rows[-1]), highlight=False)
            time.sleep(0.2)

    def _look(self, now_s: float, nodes: Sequence[Node], work: Work) -> None:
        latencies = work.latencies.take()
        row = {
            "minute": round(now_s / 60, 2),
            "p50_ms": quantile(latencies, 0.5) * 1000,
            "p99_ms": quantile(latencies, 0.99) * 1000,
            "acknowledged": work.latencies.acknowledged,
            "failed": work.latencies.failed,
            "consumed": work.consumed,
            "topics": work.topics_made,
            "load": os.getloadavg()[0],
        }
        for node in nodes:
            sample = node.sample(now_s)
            self.samples.setdefault(node.name, []).append(sample)
            row |= {f"{node.name}, PSS MiB": sample.pss_bytes / MIB, f"{node.name}, fds": sample.descriptors}
            row |= {f"{node.name}, tasks": sample.tasks, f"{node.name}, CPU s": node.cpu_s()}
        self.rows.append(row)
        self._write()

    def _write(self) -> None:
        """Written at each look: an interrupted run has figures too."""
        document = {
            "command": command_line(),
            "commit": commit(),
            "machine": machine(),
            "rows": self.rows,
            "samples": {name: [asdict(sample) for sample in samples] for name, samples in self.samples.items()},
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(document, indent=1) + "\n")


def _bar(console: Console) -> Progress:
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, disable=not console.is_terminal)


def _line(row: dict[str, float]) -> str:
    memory = " ".join(f"{value:.0f}" for name, value in row.items() if name.endswith("PSS MiB"))
    return (
        f"minute {row['minute']:.1f}: p50 {row['p50_ms']:.1f} ms, p99 {row['p99_ms']:.0f} ms, "
        f"{row['acknowledged']:,.0f} acknowledged, {row['consumed']:,.0f} consumed, PSS {memory} MiB, "
        f"load {row['load']:.1f}"
    )


def _tell(console: Console, soak: _Soak) -> list[Growth]:
    """Print the verdict; return what grew."""
    for error in soak.errors:
        console.print(f"[red]ended early: {error}[/]")
    table = Table("process", "quantity", "after a tenth", "at the end", "verdict")
    leaks: list[Growth] = []
    judged = {name: partial(growths, samples) for name, samples in soak.samples.items()}
    judged["the producers"] = partial(latency_growths, soak.rows)
    for name, judge in judged.items():
        if len(soak.rows) < SAMPLES_MIN:
            console.print(f"[yellow]{name}: {len(soak.rows)} samples are too few for a verdict[/]")
            continue
        for growth in judge():
            scale, unit = (MIB, " MiB") if growth.quantity.endswith("bytes") else (1, "")
            before, after = f"{growth.before / scale:,.0f}{unit}", f"{growth.after / scale:,.0f}{unit}"
            table.add_row(name, growth.quantity, before, after, "[red]grew[/]" if growth.is_leak else "steady")
            leaks += [growth] * growth.is_leak
    console.print(table)
    return leaks
