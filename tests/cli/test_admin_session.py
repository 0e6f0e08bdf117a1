"""What an operator is told of brokers that do not answer."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tierfetch.cli.cluster_session import LEARNED_MAX, NOTICE_S, Admin
from tierfetch.protocol.net.client import Address
from tierfetch.protocol.net.client_connection import RequestTimedOutError
from tierfetch.protocol.requests import metadata_of

BROKER = Address("kafka-1", 9092)


class Failing:
    """A client whose every request fails so."""

    def __init__(self, error: OSError) -> None:
        self._error = error

    async def send(self, *_: object, **__: object) -> None:
        raise self._error


@pytest.mark.parametrize(
    "error",
    [RequestTimedOutError(f"{BROKER} did not answer METADATA within 30 s"), ConnectionResetError("Connection reset")],
)
async def test_a_broker_that_does_not_answer_is_named_once(error: OSError) -> None:
    admin = Admin([BROKER])
    admin._client = Failing(error)
    with pytest.raises(OSError, match=str(error)) as failed:
        await admin.send(metadata_of(None))
    assert str(failed.value).count(str(BROKER)) == 1


class Slow:
    """A client whose every request takes so long, and fails if that is longer than its timeout."""

    def __init__(self, takes_s: float) -> None:
        self._takes_s = takes_s

    async def send(self, address: Address, _: object, *, timeout_s: float) -> None:
        await asyncio.sleep(min(self._takes_s, timeout_s))
        raise RequestTimedOutError(f"{address} did not answer METADATA within {timeout_s:g} s")


@pytest.mark.virtual_time
@pytest.mark.parametrize("takes_s", [NOTICE_S - 0.1, NOTICE_S + 0.1, 60.0])
async def test_a_long_wait_is_said_while_it_lasts_once_for_each_broker(takes_s: float) -> None:
    said: list[str] = []
    other = Address("kafka-2", 9092)
    admin = Admin([BROKER, other], timeout_s=20, notice=said.append)
    admin._client = Slow(takes_s)
    for _ in range(2):
        with pytest.raises(OSError, match="did not answer METADATA within 20 s"):
            await admin.send(metadata_of(None))
    expected = [f"waiting for {address} to answer METADATA, at most 20 s" for address in (BROKER, other)]
    assert said == (expected if takes_s > NOTICE_S else [])


class Answering:
    """A client whose brokers at these ports answer; it remembers which were asked."""

    def __init__(self, *ports: int) -> None:
        self.ports = ports
        self.asked: list[Address] = []

    async def send(self, address: Address, *_: object, **__: object) -> object:
        self.asked.append(address)
        if address.port not in self.ports:
            raise ConnectionRefusedError("Connection refused")
        return object()


async def asked(admin: Admin, *answering: int) -> list[int]:
    """Return the ports of the brokers that a request goes to, when those of these ports answer."""
    client = admin._client = Answering(*answering)
    with contextlib.suppress(OSError):
        await admin.send(metadata_of(None))
    return [address.port for address in client.asked]


async def test_a_session_outlives_the_broker_that_it_began_with() -> None:
    admin = Admin([BROKER])
    admin.learn([Address("kafka", 1), Address("kafka", 2), BROKER])
    assert await asked(admin, 2) == [BROKER.port, 1, 2]
    admin.learn([Address("kafka", 2)])
    assert await asked(admin, 2) == [2], "the one that answered last is the first"
    assert await asked(admin) == [2, BROKER.port, 1], "one that was away for a moment is still known"


async def test_brokers_that_come_and_go_are_forgotten_and_those_that_were_named_never() -> None:
    admin = Admin([BROKER], notice=lambda _: None)
    for port in range(10 * LEARNED_MAX):
        admin.learn([Address("kafka", port + 1)])
        admin._say_wait(Address("kafka", port + 1), "METADATA")
    ports = await asked(admin)
    assert ports == [BROKER.port, *range(9 * LEARNED_MAX + 1, 10 * LEARNED_MAX + 1)]
    assert len(admin._noticed) <= LEARNED_MAX + 1
    admin.learn([Address("kafka", port + 1) for port in range(10 * LEARNED_MAX)])
    assert len(await asked(admin)) == LEARNED_MAX + 1, "a broker that names thousands changes nothing"
