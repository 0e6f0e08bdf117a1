"""Rows per second inside Spark, all columns to a sink that drops them, beside librdkafka reading them from a broker.

One broker takes the records from a librdkafka producer and copies them to its tier; Spark reads the tier, the consumer
the broker's warm local segments. Each Spark session is a process of its own: its start, the plan and two warm-ups over
the whole table are not counted, the runs after them are. CPU seconds are those of the JVM and of its Python workers.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Producer

from tierfetch.cli.local import LocalCluster, TierSettings, end_with_parent, poll

from ..measure import Results
from ..workload import STEP_TIMEOUT_S, consume, create_topic
from .segments import KEY, value

SEGMENT_BYTES = 16 << 20
VALUES = 4096
SESSION_TIMEOUT_S = 600.0
CASES = (
    ("551 B, none", 551, "none"),
    ("551 B, lz4", 551, "lz4"),
    ("100 B, none", 100, "none"),
)
MASTERS = ("local[1]", "local[2]")


def run(base: Path, results: Results, total_mb: int, runs: int, say: Callable[[str], None]) -> None:
    say("  a broker, to copy what a producer sends")
    with broker(base) as cluster:
        for number, (case, record_bytes, codec) in enumerate(CASES):
            topic = f"bench-{number}"
            create_topic(cluster, [[1]], {"segment.bytes": str(SEGMENT_BYTES), "remote.storage.enable": "true"}, topic)
            size_mb = total_mb if record_bytes > 100 else total_mb // 3
            say(f"  {case}: {size_mb} MB produced and tiered")
            produced = produce(cluster, topic, size_mb * 1_000_000 // record_bytes, record_bytes, codec)
            wait_tiered(base / "tier", cluster.data_directory(1), topic)
            consume(cluster, [0], produced, topic=topic)  # warm-up
            rates = [produced / consume(cluster, [0], produced, topic=topic) / 1000 for _ in range(runs)]
            for rate in rates:
                results.add("spark", case, "librdkafka", "rate", rate, "krec/s")
            say(f"    librdkafka: {max(rates):,.0f} krec/s")
            for master in MASTERS:
                told = in_a_session(base / "tier", topic, master, runs)
                add(results, case, master, told)
                say(f"    {master}: {told['rows'] / min(told['seconds']) / 1000:,.0f} krec/s of {told['rows']:,} rows")


def add(results: Results, case: str, master: str, told: dict[str, Any]) -> None:
    for seconds, cpu_s in zip(told["seconds"], told["cpu_s"], strict=True):
        results.add("spark", case, master, "rate", told["rows"] / seconds / 1000, "krec/s")
        results.add("spark", case, master, "CPU of a million records", cpu_s / told["rows"] * 1e6, "s")
    results.add("spark", case, master, "peak RSS of a Python worker", told["worker_mb"], "MB")


@contextmanager
def broker(base: Path) -> Iterator[Any]:
    tier = TierSettings("local", {"dir": str(base / "tier")})
    with LocalCluster(base, (1,), tier=tier, configs={"log.retention.check.interval.ms": "1000"}) as cluster:
        yield cluster


def produce(cluster: Any, topic: str, records: int, record_bytes: int, codec: str) -> int:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "linger.ms": 20,
            "batch.size": 200_000,
            "compression.type": codec,
            "queue.buffering.max.messages": 200_000,
            "log_level": 2,
        }
    )
    payload = max(1, record_bytes - len(KEY) - 10)
    batch = [{"key": KEY, "value": value(payload, number)} for number in range(VALUES)]
    for _ in range(-(-records // VALUES)):
        send = batch
        while queued := len(send) - producer.produce_batch(topic, send, partition=0):
            send = send[-queued:]
            producer.poll(0.02)
        producer.poll(0)
    if producer.flush(STEP_TIMEOUT_S):
        raise RuntimeError("records were not acknowledged in time")
    return -(-records // VALUES) * VALUES


def wait_tiered(tier: Path, local: Path, topic: str) -> None:
    """Until all segments but the active one are copied."""
    for _ in poll(STEP_TIMEOUT_S, "closed segments to be tiered", 0.2):
        here = len(list(local.glob(f"**/{topic}-0/*.log")))
        if here and len(list(tier.glob(f"*/{topic}-0-*/*.log"))) >= here - 1:
            return


def in_a_session(tier: Path, topic: str, master: str, runs: int) -> dict[str, Any]:
    command = [sys.executable, "-m", __name__, str(tier), topic, master, str(runs)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, timeout=SESSION_TIMEOUT_S, preexec_fn=end_with_parent()
    )
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def read(tier: str, topic: str, master: str, runs: int) -> dict[str, Any]:
    from tierfetch.pipeline import local_session

    session = local_session(master, {"spark.ui.showConsoleProgress": "false"})
    frame = session.read.format("tierfetch").options(location=tier, topics=topic).load()
    rows, seconds, cpu_s = frame.count(), [], []  # the first warm-up; it plans, too
    for number in range(runs + 1):
        began, cpu_began = time.perf_counter(), cpu_of_children()
        frame.write.format("noop").mode("overwrite").save()
        if number:
            seconds.append(time.perf_counter() - began)
            cpu_s.append(sum(cpu - cpu_began.get(pid, 0.0) for pid, cpu in cpu_of_children().items()))
    peak_mb = worker_mb()
    session.stop()
    return {"rows": rows, "seconds": seconds, "cpu_s": cpu_s, "worker_mb": peak_mb}


def cpu_of_children() -> dict[int, float]:
    """Seconds by process: the JVM, and the Python workers, which Spark keeps for the next task."""
    found = {}
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            times = child.cpu_times()
            found[child.pid] = times.user + times.system
    return found


def worker_mb() -> float:
    """Largest resident size that a Python worker has had."""
    peaks = [0]
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess, FileNotFoundError):
            if "python" in child.name():
                status = Path(f"/proc/{child.pid}/status").read_text().splitlines()
                peaks += [int(line.split()[1]) for line in status if line.startswith("VmHWM")]
    return max(peaks) * 1024 / 1e6


if __name__ == "__main__":
    sys.stdout.write(json.dumps(read(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))) + "\n")
