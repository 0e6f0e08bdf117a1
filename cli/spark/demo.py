"""`tierfetch spark demo`: a tier made here, its brokers stopped, then asked, audited, profiled and exported."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console

from ..demo.command import workspace
from ..local import LocalCluster, NodeFailedError, TierSettings, poll
from ..offsets import list_offset
from .audit import print_audit
from .compact import print_export
from .profile import print_profile
from .session import Spark, spark_options, write_page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BROKER: Final = 1
EARLIEST_PENDING_UPLOAD: Final = -6
SEGMENT_BYTES: Final = 1 << 20
TIMEOUT_S: Final = 60.0
DAY_MS: Final = 86_400_000
DAYS: Final = 3
CUSTOMERS: Final = 5000
TOPICS: Final = {"orders": 4, "clicks": 2}
"""Partitions of each."""
RECORDS: Final = {"orders": 100_000, "clicks": 120_000}
_COUNTRIES: Final = ("DE", "FR", "IT", "JP", "KR", "CN", "US")
_QUERY: Final = """
SELECT get_json_object(CAST(value AS STRING), '$.country') AS country,
       count(*) AS orders,
       count(DISTINCT key) AS customers,
       round(sum(CAST(get_json_object(CAST(value AS STRING), '$.cents') AS BIGINT)) / 100, 2) AS revenue
FROM orders WHERE value IS NOT NULL GROUP BY country ORDER BY revenue DESC
"""


@click.command("demo")
@click.option(
    "--html-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default="spark-demo",
    show_default=True,
    help="Write the pages audit.html and profile.html here.",
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    help="Use this directory for the tier, and leave it there.",
)
@spark_options
def demo(html_dir: Path, keep: Path | None, master: str, conf: tuple[str, ...]) -> None:
    """Fill a small tier, stop its broker, and ask the tier with Spark (about a minute).

    One broker on loopback, two topics, librdkafka as the producer; everything closed goes to a local directory. Then
    the broker is stopped: all that follows needs the tier alone. A query in SQL, the audit, the profile with charts, an
    export to Parquet, and the same export again, which adds nothing.

    \b
      tierfetch spark demo
    """
    console = Console()
    html_dir.mkdir(parents=True, exist_ok=True)
    with workspace(keep) as base:
        with _step(console, "fill a tier, then stop its broker"):
            try:
                tier = fill_tier(base)
            except (NodeFailedError, OSError) as error:
                raise click.ClickException(f"the tier could not be filled: {error}") from None
        with Spark(master=master, conf=conf).session() as session:
            show(session, tier, base / "export", html_dir, console)
    console.print(f"\nFor a browser: {html_dir / 'audit.html'} and {html_dir / 'profile.html'}", highlight=False)


def show(session: SparkSession, tier: Path, export: Path, html_dir: Path, console: Console) -> None:
    from ...pipeline.jobs import audit, audit_page, compact_to, profile, profile_page

    options = {"location": str(tier)}
    with _step(console, "a query over the whole history of a topic"):
        session.read.format("tierfetch").options(**options, topics="orders").load().createOrReplaceTempView("orders")
        session.sql(_QUERY).show(truncate=False)
    with _step(console, "the audit: every byte of every object"):
        found = audit(session, options)
        print_audit(found, console)
        write_page(html_dir / "audit.html", lambda made: audit_page(found, made))
    with _step(console, "the profile: rates, codecs, skew, compaction potential"):
        profiled = profile(session, options)
        print_profile(profiled, console)
        write_page(html_dir / "profile.html", lambda made: profile_page(profiled, made))
    for title in ("export to Parquet, by topic and day", "again"):
        with _step(console, title):
            print_export(compact_to(session, options, str(export)), console)


def fill_tier(base: Path) -> Path:
    """A directory with the tier of both topics; no broker runs any longer."""
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    tier = base / "tier"
    settings = TierSettings("local", {"dir": str(tier)})
    with LocalCluster(base, (BROKER,), tier=settings, configs={"log.retention.check.interval.ms": "1000"}) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2})
        config = {"remote.storage.enable": "true", "segment.bytes": str(SEGMENT_BYTES), "retention.ms": "-1"}
        created = admin.create_topics(
            [
                NewTopic(name, num_partitions=count, replication_factor=1, config=config)
                for name, count in TOPICS.items()
            ]
        )
        for future in created.values():
            future.result(TIMEOUT_S)
        _produce(cluster.bootstrap_servers)
        _wait_tiered(cluster)
    return tier


def _produce(bootstrap_servers: str) -> None:
    """Orders with a key and now and then without a value, zstd; clicks without a key, lz4; both of the last days."""
    from confluent_kafka import Producer

    rng = random.Random(7)
    now_ms = time.time_ns() // 1_000_000
    for topic, codec in (("orders", "zstd"), ("clicks", "lz4")):
        producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "compression.type": codec,
                "linger.ms": 20,
                "batch.num.messages": 500,
                "log_level": 2,
            }
        )
        count = RECORDS[topic]
        for number in range(count):
            at_ms = now_ms - DAYS * DAY_MS + number * DAYS * DAY_MS // count
            key, value = _order(rng) if topic == "orders" else _click(rng)
            while True:
                try:
                    producer.produce(topic, value, key, timestamp=at_ms)
                    break
                except BufferError:
                    producer.poll(0.05)
            producer.poll(0)
        if left := producer.flush(TIMEOUT_S):
            raise click.ClickException(f"{left} records of {topic} were not acknowledged within {TIMEOUT_S:.0f} s")


def _order(rng: random.Random) -> tuple[bytes, bytes | None]:
    """Few customers order much, many little; some are forgotten on request."""
    customer = int(CUSTOMERS * rng.random() ** 3)
    if rng.random() < 0.01:
        return b"customer-%04d" % customer, None
    note = rng.randbytes(120).hex()
    value = f'{{"country":"{rng.choice(_COUNTRIES)}","cents":{rng.randrange(100, 50_000)},"note":"{note}"}}'
    return b"customer-%04d" % customer, value.encode()


def _click(rng: random.Random) -> tuple[None, bytes]:
    return None, f'{{"page":"/item/{rng.randrange(900)}","session":"{rng.randbytes(24).hex()}"}}'.encode()


def _wait_tiered(cluster: LocalCluster) -> None:
    """Until everything but the active segments is in the tier."""
    for _ in poll(TIMEOUT_S, "closed segments to be tiered", 0.2):
        if all(_is_tiered(cluster, topic, number) for topic, count in TOPICS.items() for number in range(count)):
            return


def _is_tiered(cluster: LocalCluster, topic: str, partition: int) -> bool:
    directory = cluster.data_directory(BROKER) / f"{topic}-{partition}"
    active = max(int(path.stem) for path in directory.glob("*.log"))
    return active == 0 or list_offset(cluster.port(BROKER), topic, partition, EARLIEST_PENDING_UPLOAD).offset >= active


@contextmanager
def _step(console: Console, title: str) -> Iterator[None]:
    console.rule(f"[bold]{title}", align="left")
    began = time.monotonic()
    yield
    console.print(f"[dim]{time.monotonic() - began:.1f} s[/]")
