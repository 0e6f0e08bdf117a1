"""`tierfetch console` on clusters in this process: what a page says when a broker goes, and how the command ends."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tierfetch.cli.cluster_session import Admin
from tierfetch.cli.console.reading import ClusterReading
from tierfetch.cli.options import addresses
from tierfetch.console import Look, Pages
from tierfetch.console.core import PartKind, Sign, replica_bars
from tierfetch.console.pages import View
from tierfetch.testing import InProcessCluster

pytestmark = [pytest.mark.slow, pytest.mark.plaintext]


def read(cluster: InProcessCluster, work: Callable[[ClusterReading], Any]) -> Any:
    async def session() -> Any:
        async with Admin(addresses([cluster.bootstrap]), timeout_s=5) as admin:
            return await work(ClusterReading(admin))

    return asyncio.run(session())


@pytest.mark.tierfetch(brokers=3)
def test_the_tier_and_a_dead_broker_are_on_the_page(tierfetch_cluster: InProcessCluster) -> None:
    cluster = tierfetch_cluster
    cluster.create_topic("orders", tiered=True)
    cluster.produce("orders", *[b"x" * 100] * 30)
    cluster.roll_segments("orders")
    cluster.wait_tiered("orders")
    cluster.produce("orders", *[b"x" * 100] * 10)

    async def look(reading: ClusterReading) -> tuple[Look, Any]:
        found = await reading.look()
        return found, await reading.offsets([("orders", 0)])

    found, offsets = read(cluster, look)
    overview = found.overview
    assert overview.problems == ()
    assert {(each.id, each.is_alive, each.failed) for each in overview.brokers} == {(n, True, 0) for n in (1, 2, 3)}
    assert overview.quorum.replicas[0].role == "leader"
    assert (overview.moves, overview.groups) == ((), ())
    assert offsets["orders", 0].copy_lag == 10
    (part,) = [each for each in overview.partitions if each.topic == "orders"]
    bars = replica_bars(part, offsets["orders", 0], found.disks, overview.alive)
    assert sorted(bar.sign.value for bar in bars) == ["in sync", "in sync", "leader"]
    assert [each.kind for each in bars[0].parts] == [PartKind.LOCAL, PartKind.PENDING]

    dead = next(bar.broker for bar in bars if bar.sign is Sign.IN_SYNC)
    cluster.kill(dead)
    cluster.wait_until(lambda: dead not in read(cluster, look)[0].overview.alive, "Metadata without the dead broker")
    found, offsets = read(cluster, look)
    (part,) = [each for each in found.overview.partitions if each.topic == "orders"]
    bars = replica_bars(part, offsets.get(("orders", 0)), found.disks, found.overview.alive)
    assert next(bar for bar in bars if bar.broker == dead).sign is Sign.OFFLINE
    assert [each.id for each in found.overview.brokers if not each.is_alive] == [dead]
    assert part.is_hurt


def test_R1_a_tier_that_fails_is_named_at_its_partition_until_it_works_again(
    tierfetch_cluster: InProcessCluster,
) -> None:
    cluster = tierfetch_cluster
    cluster.create_topic("orders", tiered=True)
    cluster.fail_tier()
    cluster.produce("orders", *[b"x" * 100] * 30)
    cluster.roll_segments("orders")

    def error() -> str | None:
        return read(cluster, lambda reading: reading.look()).disks[1]["orders", 0].tier_error

    cluster.wait_until(lambda: (error() or "").startswith("copy: "), "the error of the tier")
    cluster.heal_tier()
    cluster.wait_until(lambda: error() is None, "the end of the error")


@pytest.mark.tierfetch(brokers=2, tier=None)
def test_a_long_session_outlives_the_broker_that_it_began_with(tierfetch_cluster: InProcessCluster) -> None:
    cluster = tierfetch_cluster
    cluster.create_topic("t", 2)
    first = addresses([cluster.address(1)])

    async def session() -> tuple[Look, Look]:
        async with Admin(first, timeout_s=5) as admin:
            reading = ClusterReading(admin)
            before = await reading.look()
            await asyncio.to_thread(cluster.kill, 1)
            return before, await reading.look()

    before, after = asyncio.run(session())
    assert [each.id for each in before.overview.brokers] == [1, 2]
    assert after.overview.cluster_id == before.overview.cluster_id


@pytest.mark.tierfetch(brokers=2, tier=None)
def test_a_broker_that_is_silent_is_unreachable_before_the_cluster_fences_it(
    tierfetch_cluster: InProcessCluster,
) -> None:
    cluster = tierfetch_cluster
    cluster.create_topic("t", 2)

    async def session() -> tuple[Look, Look]:
        async with Admin(addresses([cluster.address(1)]), timeout_s=1) as admin:
            reading = ClusterReading(admin)
            before = await reading.look()
            await asyncio.to_thread(cluster.pause, 2)
            return before, await reading.look()

    before, after = (look.overview for look in asyncio.run(session()))
    assert (before.unreachable, before.problems) == (frozenset(), ())
    assert after.alive == {1, 2}, "its session is not over"
    assert after.unreachable == {2}
    assert "broker 2" in [problem.what for problem in after.problems]
    one, two = after.brokers
    assert one.seen_at_s is not None
    assert two.seen_at_s is not None
    assert two.seen_at_s < before.taken_at_s < one.seen_at_s
    cluster.resume(2)


@pytest.mark.tierfetch(brokers=2, tier=None)
def test_the_loss_of_a_broker_is_news_at_once(tierfetch_cluster: InProcessCluster) -> None:
    cluster = tierfetch_cluster
    cluster.create_topic("t", 2)

    async def session() -> tuple[View, View]:
        async with Admin(addresses([cluster.address(1)]), timeout_s=5) as admin:
            pages = Pages(ClusterReading(admin), interval_s=1000)
            admin.when_lost(pages.expire)
            before = await pages.overview()
            cluster_dies = asyncio.to_thread(cluster.kill, 2)
            await asyncio.gather(asyncio.wait_for(pages.news(1000), 30), cluster_dies)
            after = await pages.overview()
            await pages.close()
            return before, after

    before, after = asyncio.run(session())
    assert before.verdict is not None
    assert after.verdict is not None
    assert (before.verdict.tone, after.verdict.tone) == ("good", "warn")
    assert "roker 2 " in after.verdict.text or "outside the ISR" in after.verdict.text


@pytest.mark.tierfetch(brokers=2, tier=None)
def test_the_model_predicts_the_live_cluster_or_says_what_it_needs(tierfetch_cluster: InProcessCluster) -> None:
    cluster = tierfetch_cluster
    cluster.create_topic("t", 2)
    cluster.produce("t", b"x" * 1000)
    missing = read(cluster, lambda reading: reading.predict(1, {}))
    assert "cores" in missing.missing
    assert missing.outcomes == ()
    known = dict.fromkeys(missing.missing, "1 GB/s") | {"cores": "4"}
    found = read(cluster, lambda reading: reading.predict(1, known))
    assert found.missing == {}
    assert found.outcomes[0]["replicas"] == str(cluster_replicas(cluster))


def cluster_replicas(cluster: InProcessCluster) -> int:
    """Broker 1 has a replica of every partition of a cluster of two."""
    return sum(1 for each in read(cluster, lambda reading: reading.look()).overview.partitions if 1 in each.replicas)


PROGRAM = """
import signal
from tierfetch.cli.main import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test in the background inherits that it is ignored
main()
"""


@contextmanager
def console(bootstrap: str, home: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command as a process, and its address."""
    command = [sys.executable, "-c", PROGRAM, "console", "--bootstrap", bootstrap, "--port", "0"]
    environment = {**os.environ, "XDG_CONFIG_HOME": str(home)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+/", process.stdout.readline())
        assert found is not None
        yield process, found.group()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def test_ctrl_c_ends_it_at_once_while_a_browser_waits_for_a_cluster_that_hangs(tmp_path: Path) -> None:
    """A listener that accepts and never answers: a request of the browser is under way when the signal comes."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with console(address, tmp_path) as (process, url):
            host, port = re.search(r"//(.*):(\d+)/", url).groups()
            with socket.create_connection((host, int(port)), 10) as browser:
                browser.sendall(f"GET / HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
                silent.settimeout(30)
                asked, _ = silent.accept()  # the console asks the cluster for this request
                process.send_signal(signal.SIGINT)
                _, errors = process.communicate(timeout=30)
                asked.close()
    assert process.returncode == 130
    assert errors == ""


def test_a_cluster_that_is_not_there_is_a_page(tmp_path: Path) -> None:
    with console("127.0.0.1:1", tmp_path) as (process, url), urllib.request.urlopen(url, timeout=30) as answer:
        text = answer.read().decode()
        assert process.poll() is None
    assert "127.0.0.1:1" in text
    assert "Could not be read" in text
