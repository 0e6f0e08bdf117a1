"""`open_server` and `join_cluster`, as an impatient stranger uses them: with a real client, wrongly, and cancelled."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tierfetch.broker import StartError, embedded, join_cluster, open_server
from tierfetch.broker.embedded import EmbeddedBroker
from tierfetch.errors import OperatorError
from tierfetch.protocol.net import LOOPBACK


async def create(server: EmbeddedBroker, topic: str, replicas: int = 1) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=server.bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, 1, replicas)])
    finally:
        await admin.close()


async def send(server: EmbeddedBroker, topic: str, *values: bytes) -> None:
    async with AIOKafkaProducer(bootstrap_servers=server.bootstrap, acks="all") as producer:
        for value in values:
            await producer.send_and_wait(topic, value)


async def read(server: EmbeddedBroker, topic: str, count: int) -> list[bytes]:
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=server.bootstrap, auto_offset_reset="earliest")
    async with consumer:
        return [(await consumer.getone()).value for _ in range(count)]


async def test_what_was_acknowledged_is_there_after_a_restart(tmp_path: Path) -> None:
    async with open_server(tmp_path / "data") as server:
        await create(server, "orders")
        await send(server, "orders", b"one", b"two")
        cluster_id = server.cluster_id
        assert server.node_id == 1
    async with open_server(str(tmp_path / "data")) as server:
        assert server.cluster_id == cluster_id
        assert await read(server, "orders", 2) == [b"one", b"two"]


async def test_a_broker_joins_and_takes_a_replica(tmp_path: Path) -> None:
    async with (
        open_server(tmp_path / "1") as server,
        join_cluster(tmp_path / "4", server.controllers, 4) as joined,
    ):
        assert (joined.node_id, joined.cluster_id, joined.controllers) == (4, server.cluster_id, server.controllers)
        await create(server, "orders", replicas=2)
        await send(joined, "orders", b"one")
        assert await read(joined, "orders", 1) == [b"one"]


def bound_port() -> tuple[socket.socket, int]:
    taken = socket.socket()
    taken.bind((LOOPBACK, 0))
    taken.listen()
    return taken, taken.getsockname()[1]


async def test_what_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "novel.txt").touch()
    (tmp_path / "empty").mkdir()
    for path, text in (
        ("file", "is a file: expected the directory of a broker"),
        ("foreign", "holds 'novel.txt' and is no log directory of a node"),
        ("absent/data", "absent does not exist"),
    ):
        with pytest.raises(StartError, match=text):
            async with open_server(tmp_path / path):
                pass
    taken, port = bound_port()
    with taken, pytest.raises(StartError, match=str(port)):
        async with open_server(tmp_path / "empty", port=port):
            pass
    assert [path.name for path in (tmp_path / "foreign").iterdir()] == ["novel.txt"]


async def test_keys_that_the_call_sets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match=r"open_server sets listeners, node\.id by its arguments"):
        async with open_server(tmp_path / "data", properties={"node.id": "7", "listeners": "PLAINTEXT://:1"}):
            pass
    with pytest.raises(OperatorError, match=r"num\.partitions"):
        async with open_server(tmp_path / "data", properties={"num.partitions": "many"}):
            pass
    assert not (tmp_path / "data").exists()


async def test_a_directory_in_use_is_refused_and_its_user_is_not_harmed(tmp_path: Path) -> None:
    async with open_server(tmp_path / "data") as server:
        with pytest.raises(StartError, match="is in use in this process"):
            async with open_server(tmp_path / "data"):
                pass
        await create(server, "orders")
        await send(server, "orders", b"one")


async def test_a_directory_of_another_node_is_refused(tmp_path: Path) -> None:
    async with open_server(tmp_path / "1") as server:
        async with join_cluster(tmp_path / "4", server.controllers, 4):
            pass
        with pytest.raises(StartError, match="belongs to node 4, this is node 5"):
            async with join_cluster(tmp_path / "4", server.controllers, 5):
                pass


async def test_controllers_that_do_not_answer_end_the_start_which_says_so_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(embedded, "REPORT_INTERVAL_S", 0.05)
    taken, port = bound_port()
    taken.close()
    limits = {"initial.broker.registration.timeout.ms": "300"}
    with pytest.raises(StartError, match=f"127.0.0.1:{port}"):
        async with join_cluster(tmp_path / "4", f"{LOOPBACK}:{port}", 4, properties=limits):
            pass
    lines = [record.getMessage() for record in caplog.records if record.name == embedded.__name__]
    assert "waiting for a controller to name the cluster" in lines[0]
    assert f"127.0.0.1:{port} cannot be reached" in lines[0]


async def test_a_cancelled_start_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, started = embedded.open_combined, asyncio.Event()

    @asynccontextmanager
    async def waiting(*arguments, **options) -> AsyncIterator[object]:
        async with opened(*arguments, **options) as node:
            started.set()
            await asyncio.Event().wait()
            yield node

    async def start() -> None:
        async with open_server(tmp_path / "data"):
            pytest.fail("it was cancelled before")

    with monkeypatch.context() as patch:
        patch.setattr(embedded, "open_combined", waiting)
        task = asyncio.create_task(start())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with open_server(tmp_path / "data"):
        pass


async def test_the_errors_of_the_block_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(ConnectionResetError, match="the caller's"):
        async with open_server(tmp_path / "data"):
            raise ConnectionResetError("the caller's")


async def test_a_broker_that_has_to_stop_says_why(tmp_path: Path) -> None:
    async with open_server(tmp_path / "data") as server:
        failure = asyncio.create_task(server.wait_failed())
        failed = next(iter(server._failures))
        failed.set_result("its disk is full")
        assert await failure == "its disk is full"
