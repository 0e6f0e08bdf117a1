"""`python -m bench fetch-s3`: what a broker serves from a tier on S3, beside boto3 on the same objects.

In turn, for each number of connections: the raw reader fetches everything from the broker, and a process without any
broker downloads the same segments by ranges, with as many threads. Both have the same store, whose pages are warm.
The tier is cold for the broker: what it keeps of the tier (64 MiB) is less than each reading, which goes round in the
same order, so that nothing is left of the reading before; the share of bytes that came from the store is printed.

Then the first byte, with a store that is far away: see `first_byte`.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from tierfetch.cli.local import LocalCluster, TierSettings
from tierfetch.cli.options import table_console

from ..consume import wait_moved
from ..lab.s3 import BUCKET, S3UnavailableError, s3_program, s3_server
from ..measure import Figure, Results, cpu_seconds, machine, scratch
from ..options import figures_option, rounds_option, size_option
from ..soak.probe import scraped
from ..systems import TIERFETCH, run_tierfetch
from ..workload import create_topic, produce
from . import first_byte
from .cache import make_warm
from .downloads import downloader_process, ranges_by_partition
from .reader import Reading, reader_process
from .report import CONSUMERS_CPU, CPU, FIRST, THROUGHPUT, rounds_text, spread
from .requests import PreparedRequest, dealt
from .rounds import in_turn, ratios
from .walk import walk

BENCHMARK: Final = "fetch-s3"
BOTO3: Final = "boto3"
FROM_STORE: Final = "bytes from the store"
FETCHED: Final = "tierfetch_remote_fetched_bytes"
GOAL: Final = 0.8
"""The share of boto3's throughput, at least."""
PARTITIONS: Final = 8
RECORD_BYTES: Final = 1_000
SEGMENT_BYTES: Final = 16 << 20
TOPIC: Final = "on-s3"
SIZE_MB_MIN: Final = 300
"""Twice what the broker keeps, and the active segments, which are not in the tier."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A way to the same objects: the processes whose CPU time it costs, and how it reads by so many connections."""

    name: str
    pids: Sequence[int]
    read: Callable[[int], Reading]
    from_store_bytes: Callable[[], float] | None = None
    """What it has read of the store so far; None: all that it received."""


@dataclass(frozen=True, slots=True)
class Arena:
    """Both ways, and the files that are read warm."""

    contestants: Sequence[Contestant]
    files: Sequence[Path]


@click.command("fetch-s3")
@size_option(500, "Records of the topic, in millions of bytes.", least=SIZE_MB_MIN)
@rounds_option(5)
@click.option(
    "--connections",
    "counts",
    type=click.IntRange(1, PARTITIONS),
    multiple=True,
    default=(1, 2, 4, 8),
    show_default=True,
)
@click.option(
    "--range-kib", type=click.IntRange(min=64), default=4096, show_default=True, help="What boto3 asks for at a time."
)
@click.option(
    "--round-trip-ms",
    type=click.FloatRange(min=1, max=400),
    default=100.0,
    show_default=True,
    help="How far away the store is for the first byte.",
)
@click.option(
    "--probes", type=click.IntRange(min=1), default=10, show_default=True, help="First bytes of each kind of offset."
)
@figures_option("fetch-s3")
def main(
    size_mb: int, rounds: int, counts: tuple[int, ...], range_kib: int, round_trip_ms: float, probes: int, path: Path
) -> None:
    """What a broker serves from a cold tier on S3, as a share of boto3, and the first byte in round trips."""
    console, results = table_console(), Results()
    try:
        s3_program()
    except S3UnavailableError as error:
        raise click.ClickException(str(error)) from error
    with scratch() as base:
        console.print(f"{size_mb:,} MB are written, and moved to the store")
        with _arena(base, size_mb, range_kib << 10, max(counts)) as arena:
            _measure(console, results, arena, counts, rounds)
        console.print(f"first bytes: {probes} of each kind, a round trip of {round_trip_ms:g} ms")
        for probe in first_byte.probes(base, round_trip_ms / 1000, probes):
            add_probe(results, probe)
    print_report(console, results, counts)
    results.write(path)
    console.print(f"Figures: {path}")


@contextmanager
def _arena(base: Path, size_mb: int, range_bytes: int, connections: int) -> Iterator[Arena]:
    """Run a store, a broker over it and both readers; `connections` at most."""
    with ExitStack() as stack:
        store = stack.enter_context(s3_server(base / "s3"))
        tier = TierSettings("s3", store.options())
        configs = {"log.retention.check.interval.ms": "1000"}
        cluster = stack.enter_context(run_tierfetch(base / "near", 1, tier, configs))
        topic = {"remote.storage.enable": "true", "local.retention.bytes": "1", "segment.bytes": str(SEGMENT_BYTES)}
        create_topic(cluster, [[1]] * PARTITIONS, topic, TOPIC)
        produce(cluster, PARTITIONS, size_mb * 1_000_000, RECORD_BYTES, topic=TOPIC)
        wait_moved(cluster.data_directory(1), TOPIC, PARTITIONS)
        requests = [_walked(cluster, partition) for partition in range(PARTITIONS)]
        ranges = ranges_by_partition(store.sizes(TOPIC, ".log"), range_bytes)
        reader = stack.enter_context(reader_process())
        downloader = stack.enter_context(downloader_process(store.port, BUCKET, connections))
        url, port, broker = cluster.metrics_url(1), cluster.port(1), cluster.process(1).pid
        ours = Contestant(
            TIERFETCH.name,
            [broker, store.pid],
            lambda count: reader.read(port, dealt(requests, count)),
            lambda: sum(scraped(url, FETCHED).values()),
        )
        bare = Contestant(BOTO3, [downloader.pid, store.pid], lambda count: downloader.read(dealt(ranges, count)))
        yield Arena([ours, bare], [path for path in store.directory.rglob("*") if path.is_file()])


def _walked(cluster: LocalCluster, partition: int) -> list[PreparedRequest]:
    """Return the requests that the local disk cannot answer."""
    segments = (cluster.data_directory(1) / f"{TOPIC}-{partition}").glob("*.log")
    return walk(cluster.port(1), TOPIC, partition, min(int(path.stem) for path in segments))


def _measure(console: Console, results: Results, arena: Arena, counts: Sequence[int], rounds: int) -> None:
    for one in arena.contestants:
        one.read(max(counts))  # connections and imports are not counted
    for number in range(rounds):
        for count in counts:
            console.print(f"round {number + 1} of {rounds}: {case_of(count)}")
            for one in in_turn(arena.contestants, number):
                make_warm(arena.files)
                add_reading(results, count, one)


def add_reading(results: Results, count: int, one: Contestant) -> None:
    """Have one read by so many connections, and keep what that took."""
    before = one.from_store_bytes() if one.from_store_bytes else 0.0
    cpu_s = cpu_seconds(list(one.pids))
    reading = one.read(count)
    cpu_s = cpu_seconds(list(one.pids)) - cpu_s
    store_bytes = one.from_store_bytes() - before if one.from_store_bytes else float(reading.received_bytes)
    gigabytes = reading.received_bytes / 1e9
    for quantity, value, unit in (
        (THROUGHPUT, reading.received_bytes / 1e6 / reading.wall_s, "MB/s"),
        (CPU, cpu_s / gigabytes, "s/GB"),
        (CONSUMERS_CPU, reading.cpu_s / gigabytes, "s/GB"),
        (FIRST, reading.first_answer_s * 1000, "ms"),
        (FROM_STORE, store_bytes / reading.received_bytes * 100, "% of what was received"),
        ("answers asked for again", float(reading.repeats), ""),
    ):
        results.add(BENCHMARK, case_of(count), one.name, quantity, value, unit)


def add_probe(results: Results, probe: first_byte.Probe) -> None:
    """Keep a first byte, and the round trip before it."""
    for quantity, value, unit in (
        ("first byte", probe.first_ms, "ms"),
        ("round trip to the store", probe.round_trip_ms, "ms"),
        ("first byte in round trips", probe.round_trips, ""),
    ):
        results.add(first_byte.BENCHMARK, probe.place, TIERFETCH.name, quantity, value, unit)


def case_of(count: int) -> str:
    return f"cold tier on S3, {count} connection{'s' * (count > 1)}"


def print_report(console: Console, results: Results, counts: Sequence[int]) -> None:
    console.print(f"{machine()}; load {min(results.loads):.1f} to {max(results.loads):.1f} during the runs")
    table = Table(
        "case", "", "MB/s, each round", "median", "of boto3", "CPU with the store's, s/GB", "from the store, %"
    )
    for count in counts:
        for name in (TIERFETCH.name, BOTO3):
            table.add_row(case_of(count), name, *row(results, count, name))
        table.add_section()
    console.print(table)
    bytes_table = Table("offset", "first byte, ms", "round trip, ms", f"round trips (goal {first_byte.GOAL:g})")
    for place in first_byte.PLACES:
        bytes_table.add_row(place, *first_byte_row(results, place))
    console.print(bytes_table)


def row(results: Results, count: int, name: str) -> list[str]:
    """Return the cells of a contestant, after its name; the share is within rounds."""
    throughput = _figure(results, BENCHMARK, case_of(count), name, THROUGHPUT)
    share = ""
    if name != BOTO3:
        bare = _figure(results, BENCHMARK, case_of(count), BOTO3, THROUGHPUT)
        shares = ratios(throughput.values, bare.values)
        is_reached = statistics.median(shares) >= GOAL
        share = f"{spread(shares)}, goal {GOAL:g}: {'reached' if is_reached else 'missed'}"
    return [
        *(rounds_text(throughput.values), f"{throughput.median:,.0f}", share),
        f"{_figure(results, BENCHMARK, case_of(count), name, CPU).median:.2f}",
        f"{_figure(results, BENCHMARK, case_of(count), name, FROM_STORE).median:.0f}",
    ]


def first_byte_row(results: Results, place: str) -> list[str]:
    """Return the cells of a kind of offset, after its name."""
    quantities = ("first byte", "round trip to the store", "first byte in round trips")
    first, trip, trips = (
        _figure(results, first_byte.BENCHMARK, place, TIERFETCH.name, quantity) for quantity in quantities
    )
    is_reached = trips.median <= first_byte.GOAL
    return [
        f"{first.median:.1f}",
        f"{trip.median:.1f}",
        f"{spread(trips.values)}: {'reached' if is_reached else 'missed'}",
    ]


def _figure(results: Results, benchmark: str, case: str, name: str, quantity: str) -> Figure:
    found = results.figure(benchmark, case, name, quantity)
    assert found is not None, f"{case}: {name} has no {quantity}"
    return found
