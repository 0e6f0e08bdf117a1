"""Clients with TLS beside clients without it, in turn on one cluster: produce, consume, handshakes.

One broker with two listeners; only its clients use TLS. Its key is on P-256; versions and ciphers are what client and
broker agree on by themselves (TLS 1.3). A handshake is a new connection that ends when both sides have finished it,
without resumption, from `HANDSHAKE_THREADS` threads of this process: its client's half costs about as much as the
broker's, so the broker's CPU time for each is given too.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from ..measure import Results, elapsed
from ..systems import Cluster, System
from ..workload import BATCH_RECORDS, consume, create_topic, produce
from .two_listeners import Stores, running

PARTITIONS: Final = 4
RECORD_BYTES: Final = 1_000
HANDSHAKES: Final = 400
HANDSHAKE_THREADS: Final = 4
TIMEOUT_S: Final = 30.0


def run(system: System, base: Path, results: Results, total_mb: int, runs: int) -> None:
    stores = Stores(base / "stores")
    with running(system, base, stores) as cluster:
        create_topic(cluster, [[1]] * PARTITIONS, {"segment.bytes": str(256 << 20)})
        clients: Mapping[str, dict[str, str]] = {"plaintext": {}, "TLS": stores.of_client()}
        _bytes(cluster, clients, results, system.name, total_mb, runs)
        _handshakes(cluster, stores, results, system.name, runs)


def _bytes(
    cluster: Cluster, clients: Mapping[str, dict[str, str]], results: Results, system: str, total_mb: int, runs: int
) -> None:
    records = total_mb * 1_000_000 // (RECORD_BYTES * BATCH_RECORDS) * BATCH_RECORDS
    for client in clients.values():  # warm-up
        produce(cluster, PARTITIONS, records * RECORD_BYTES, RECORD_BYTES, acks="1", client=client)
    broker = cluster.process(1).pid
    for _ in range(runs):
        for protocol, client in clients.items():
            with elapsed([broker]) as cost:
                seconds = produce(cluster, PARTITIONS, records * RECORD_BYTES, RECORD_BYTES, acks="1", client=client)
            results.add("tls", f"produce, acks=1, {protocol}", system, "throughput", total_mb / seconds, "MB/s")
            results.add("tls", f"produce, acks=1, {protocol}", system, "CPU", cost.cpu_s / (total_mb / 1e3), "s/GB")
            with elapsed([broker]) as cost:
                seconds = consume(cluster, range(PARTITIONS), records, client=client)
            results.add("tls", f"consume, {protocol}", system, "throughput", total_mb / seconds, "MB/s")
            results.add("tls", f"consume, {protocol}", system, "CPU", cost.cpu_s / (total_mb / 1e3), "s/GB")


def _handshakes(cluster: Cluster, stores: Stores, results: Results, system: str, runs: int) -> None:
    context = ssl.create_default_context(cafile=str(stores.ca_file))

    def connect(_: int) -> None:
        with socket.create_connection(("127.0.0.1", stores.port), TIMEOUT_S) as plain:
            context.wrap_socket(plain, server_hostname="127.0.0.1").close()

    with ThreadPoolExecutor(HANDSHAKE_THREADS) as pool:
        list(pool.map(connect, range(HANDSHAKES)))  # warm-up
        for _ in range(runs):
            with elapsed([cluster.process(1).pid]) as cost:
                began = time.perf_counter()
                list(pool.map(connect, range(HANDSHAKES)))
                seconds = time.perf_counter() - began
            results.add("tls", "handshakes", system, "throughput", HANDSHAKES / seconds, "a second")
            results.add("tls", "handshakes", system, "CPU", cost.cpu_s / HANDSHAKES * 1e3, "ms each")
