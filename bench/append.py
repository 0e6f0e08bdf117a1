"""Appends to the metadata quorum: three voters on one machine, each with its own process and log, all of them fsyncing.

Nodes 2 and 3 are processes (`voter`); node 1, in this process, leads and appends, for an append comes from the leader's
own state machine. An append counts when the high watermark has passed it, so when a second voter has it on
its disk. Beside it, in the same run and directory: what one write and fsync of the same size take.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tierfetch.broker import NodeEnvironment
from tierfetch.cli.local import LocalQuorum
from tierfetch.log.disk import OsDisk
from tierfetch.quorum import (
    CommittedBatch,
    LeaderAndEpoch,
    QuorumNode,
    SnapshotContent,
    open_quorum,
    parse_controller_config,
)

from .measure import Results
from .systems import System

LEADER: Final = 1
RECORD: Final = b"r" * 100
APPENDERS: Final = (1, 100, 1000)
SECONDS: Final = 3.0
SINGLE_APPENDS: Final = 200
LEADER_TIMEOUT_S: Final = 20.0
PATIENT: Final = {"controller.quorum.election.timeout.ms": "10000", "controller.quorum.fetch.timeout.ms": "20000"}
"""The processes let node 1 win."""


def run(system: System, base: Path, results: Results, total_mb: int, runs: int) -> None:
    """Apache Kafka has no client that appends to its metadata log: of it nothing is measured."""
    del total_mb
    if system.name != "tierfetch":
        return
    for number in range(runs):
        with LocalQuorum(base / f"run-{number}", configs=PATIENT, command=_voter) as quorum:
            quorum.kill(LEADER)
            asyncio.run(_measure(quorum, results, system.name))


def _voter(node: int, config: Path) -> Sequence[str]:
    return [sys.executable, "-m", "tierfetch.bench.lab.voter", str(config)]


class _Leads:
    """The state machine: it only waits to lead."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    def on_commit(self, batch: CommittedBatch) -> None:
        """Nothing is kept."""

    def on_load_snapshot(self, snapshot: SnapshotContent) -> None:
        """There is none."""

    def on_leader_change(self, leader: LeaderAndEpoch) -> None:
        if leader.leader_id == LEADER:
            self.event.set()


async def _measure(quorum: LocalQuorum, results: Results, name: str) -> None:
    config, _ = parse_controller_config(
        quorum.properties(LEADER) | {"controller.quorum.election.timeout.ms": "300"}, "bench"
    )
    disk = OsDisk()
    leads = _Leads()
    async with open_quorum(config, NodeEnvironment(disk=disk, rng=random.Random(LEADER))) as service:
        await service.begin([leads])
        node = service.node
        async with asyncio.timeout(LEADER_TIMEOUT_S):
            await leads.event.wait()
        epoch = node.status.leader_and_epoch.epoch
        await node.append_and_commit(epoch, [RECORD])
        latencies = [await _timed(node, epoch) for _ in range(SINGLE_APPENDS)]
        fsyncs = await _fsyncs(disk, quorum.data_directory(LEADER) / "probe")
        results.add("append", "one at a time, 100 B", name, "append latency, median", _ms(latencies, 0.5), "ms")
        results.add("append", "one at a time, 100 B", name, "append latency, p99", _ms(latencies, 0.99), "ms")
        results.add("append", "one at a time, 100 B", name, "write + fsync of one file, median", _ms(fsyncs, 0.5), "ms")
        for appenders in APPENDERS:
            cpu_s = time.process_time()
            rate, latencies = await _throughput(node, epoch, appenders)
            cpu_us = (time.process_time() - cpu_s) * 1e6 / len(latencies)
            case = f"{appenders} appenders, 100 B"
            results.add("append", case, name, "appends", rate, "1/s")
            results.add("append", case, name, "CPU of the leader for each", cpu_us, "us")
            results.add("append", case, name, "append latency, median", _ms(latencies, 0.5), "ms")
    await disk.close()


async def _timed(node: QuorumNode, epoch: int) -> float:
    began = time.perf_counter()
    await node.append_and_commit(epoch, [RECORD])
    return time.perf_counter() - began


async def _throughput(node: QuorumNode, epoch: int, appenders: int) -> tuple[float, list[float]]:
    latencies: list[float] = []
    ends_at = time.perf_counter() + SECONDS

    async def append() -> None:
        while time.perf_counter() < ends_at:
            latencies.append(await _timed(node, epoch))

    began = time.perf_counter()
    await asyncio.gather(*(append() for _ in range(appenders)))
    return len(latencies) / (time.perf_counter() - began), latencies


async def _fsyncs(disk: OsDisk, path: Path) -> list[float]:
    """One write of a batch's size and one fsync, again and again, at the end of one file."""
    file = await disk.open(path, create=True)
    taken = []
    for number in range(SINGLE_APPENDS):
        began = time.perf_counter()
        await file.write(number * len(RECORD), RECORD)
        await file.sync()
        taken.append(time.perf_counter() - began)
    await file.close()
    await disk.remove(path)
    return taken


def _ms(values: list[float], quantile: float) -> float:
    ordered = sorted(values)
    if quantile == 0.5:
        return statistics.median(ordered) * 1000
    return ordered[min(len(ordered) - 1, int(len(ordered) * quantile))] * 1000
