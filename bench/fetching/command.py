"""`python -m bench fetch`: what brokers serve to a reader that decodes nothing, beside two bare loops.

Both systems run at the same time, and are asked in turn. All brokers and loops serve the same number of records of the
same size, in as many partitions; a connection reads its partitions one after another, one fetch at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from tierfetch.cli.options import table_console

from ..consume import wait_moved
from ..measure import Results, cpu_seconds, scratch
from ..options import against_option, figures_option, rounds_option, size_option
from ..systems import Cluster, System, systems_of
from ..workload import create_topic, produce
from .bare import WAYS, bare_requests, bare_server
from .cache import make_cold, make_warm
from .reader import Reader, Reading, reader_process
from .report import BENCHMARK, CONSUMERS_CPU, CPU, FIRST, THROUGHPUT, print_report
from .requests import PreparedRequest, dealt
from .rounds import COLD, LOCAL, TIERED, WARM, Case, cases, in_turn
from .walk import walk

PARTITIONS: Final = 8
RECORD_BYTES: Final = 1_000
SEGMENT_BYTES: Final = 16 << 20
SIZE_MB_MIN: Final = 200
"""Each partition has a closed segment, whose copy can be read from the tier."""
WARM_UPS: Final = 3
"""Readings of each place that are not counted: they compile what a virtual machine compiles."""
TOPICS: Final = {LOCAL: "fetched", TIERED: "fetched-from-tier"}
CONFIGS: Final[Mapping[str, Mapping[str, str]]] = {
    LOCAL: {},
    TIERED: {"remote.storage.enable": "true", "local.retention.bytes": "1"},
}


@dataclass(frozen=True, slots=True)
class Server:
    """Something that answers: its requests by partition, and the files that these read, for each place."""

    name: str
    port: int
    pid: int
    requests: Mapping[str, Sequence[Sequence[PreparedRequest]]]
    files: Mapping[str, Sequence[Path]]


@click.command("fetch")
@against_option
@size_option(400, "Records of each place, in millions of bytes.", least=SIZE_MB_MIN)
@rounds_option(5)
@click.option(
    "--connections",
    "counts",
    type=click.IntRange(1, PARTITIONS),
    multiple=True,
    default=(1, 2, 4, 8),
    show_default=True,
)
@click.option("--places", type=click.Choice([LOCAL, TIERED]), multiple=True, default=(LOCAL, TIERED), show_default=True)
@click.option("--caches", type=click.Choice([WARM, COLD]), multiple=True, default=(WARM, COLD), show_default=True)
@figures_option("fetch")
def main(
    against: str,
    size_mb: int,
    rounds: int,
    counts: tuple[int, ...],
    places: tuple[str, ...],
    caches: tuple[str, ...],
    path: Path,
) -> None:
    """What brokers serve to fetches of a reader that decodes nothing, as MB/s, CPU and a share of bare loops."""
    console, results = table_console(), Results()
    systems = systems_of(against, console)
    measured = list(cases(places, caches, counts))
    with ExitStack() as stack:
        base = stack.enter_context(scratch())
        reader = stack.enter_context(reader_process())
        servers = [stack.enter_context(_serving(console, system, base, places, size_mb)) for system in systems]
        servers += [stack.enter_context(_bare(way, servers[0])) for way in WAYS]
        _measure(console, results, reader, servers, measured, rounds)
    print_report(console, results, measured, [system.name for system in systems])
    results.write(path)
    console.print(f"Figures: {path}")


@contextmanager
def _serving(console: Console, system: System, base: Path, places: Sequence[str], size_mb: int) -> Iterator[Server]:
    """Run a broker that has the topics."""
    own = base / system.name
    with system.run(own, 1, True, {"log.retention.check.interval.ms": "1000"}) as cluster:
        for place in places:
            console.print(f"{system.name}: {size_mb:,} MB are written, {place}")
            configs = {"segment.bytes": str(SEGMENT_BYTES), **CONFIGS[place]}
            create_topic(cluster, [[1]] * PARTITIONS, configs, TOPICS[place])
            produce(cluster, PARTITIONS, size_mb * 1_000_000, RECORD_BYTES, topic=TOPICS[place])
            if place == TIERED:
                wait_moved(cluster.data_directory(1), TOPICS[place], PARTITIONS)
        requests = {place: _walked(cluster, place) for place in places}
        files = {place: _files(cluster, place) for place in places}
        yield Server(system.name, cluster.port(1), cluster.process(1).pid, requests, files)


def _walked(cluster: Cluster, place: str) -> list[list[PreparedRequest]]:
    """Return the requests of each partition; of a tiered one, those that the local disk cannot answer."""
    topic = TOPICS[place]
    found = []
    for partition in range(PARTITIONS):
        segments = (cluster.data_directory(1) / f"{topic}-{partition}").glob("*.log")
        end = min(int(path.stem) for path in segments) if place == TIERED else None
        found.append(walk(cluster.port(1), topic, partition, end))
    return found


def _files(cluster: Cluster, place: str) -> list[Path]:
    data = cluster.data_directory(1)
    paths = (data.parent / "tier").rglob("*") if place == TIERED else data.glob(f"{TOPICS[place]}-*/*.log")
    return sorted(path for path in paths if path.is_file())


@contextmanager
def _bare(way: str, broker: Server) -> Iterator[Server]:
    """Serve the broker's own files."""
    files = {place: [path for path in paths if path.stat().st_size] for place, paths in broker.files.items()}
    paths = [path for each in files.values() for path in each]
    requests, first = {}, 0
    for place, each in files.items():
        found = [bare_requests([path.stat().st_size], first + number) for number, path in enumerate(each)]
        requests[place], first = found, first + len(each)
    with bare_server(way, paths) as server:
        yield Server(way, server.port, server.pid, requests, files)


def _measure(
    console: Console,
    results: Results,
    reader: Reader,
    servers: Sequence[Server],
    measured: Sequence[Case],
    rounds: int,
) -> None:
    for place in dict.fromkeys(case.place for case in measured):
        for server in servers:
            for _ in range(WARM_UPS):
                reader.read(server.port, dealt(server.requests[place], PARTITIONS))
    for number in range(rounds):
        for case in measured:
            console.print(f"round {number + 1} of {rounds}: {case.name}")
            for server in in_turn(servers, number):
                add(results, case, server, reader)


def add(results: Results, case: Case, server: Server, reader: Reader) -> None:
    """Have the server read as the case says, and keep what that took."""
    prepare = make_cold if case.cache == COLD else make_warm
    prepare(server.files[case.place])
    cpu_s = cpu_seconds([server.pid])
    reading = reader.read(server.port, dealt(server.requests[case.place], case.connections))
    for quantity, value, unit in measured_quantities(reading, cpu_seconds([server.pid]) - cpu_s):
        results.add(BENCHMARK, case.name, server.name, quantity, value, unit)


def measured_quantities(reading: Reading, cpu_s: float) -> list[tuple[str, float, str]]:
    gigabytes = reading.received_bytes / 1e9
    return [
        (THROUGHPUT, reading.received_bytes / 1e6 / reading.wall_s, "MB/s"),
        (CPU, cpu_s / gigabytes, "s/GB"),
        (CONSUMERS_CPU, reading.cpu_s / gigabytes, "s/GB"),
        (FIRST, reading.first_answer_s * 1000, "ms"),
        ("answers asked for again", float(reading.repeats), ""),
    ]
