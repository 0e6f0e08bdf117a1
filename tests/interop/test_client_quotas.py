"""Quotas as Kafka's tools set them: `kafka-configs.sh` unchanged, and the same raw requests to Kafka and tierfetch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tierfetch.bench.lab.kafka import KafkaCluster
from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.net.client import Address, KafkaClient
from tierfetch.tests.interop.brokers import BROKER
from tierfetch.tests.interop.clients import TIMEOUT_S
from tierfetch.tests.interop.java import kafka_tool
from tierfetch.tests.interop.quotas import remove_quotas
from tierfetch.tests.messages import plain, request_of

CONFIGS = "kafka.admin.ConfigCommand"
Parts = dict[str, str | None]

ALTERED: dict[str, tuple[Parts, dict[str, float | None]]] = {
    "a user": ({"user": "a"}, {"producer_byte_rate": 1024, "request_percentage": 12.5}),
    "the default user": ({"user": None}, {"consumer_byte_rate": 2048}),
    "a pair": ({"user": "a", "client-id": "c"}, {"controller_mutation_rate": 1.5}),
    "a pair of defaults": ({"user": None, "client-id": None}, {"producer_byte_rate": 1}),
    "a client": ({"client-id": "c"}, {"producer_byte_rate": 3}),
    "an address": ({"ip": "10.0.0.1"}, {"connection_creation_rate": 5}),
    "the default address": ({"ip": None}, {"connection_creation_rate": 6}),
    "again": ({"user": "a"}, {"producer_byte_rate": 1024}),
    "a removal": ({"user": "a"}, {"request_percentage": None}),
    "a removal of nothing": ({"user": "b"}, {"producer_byte_rate": None}),
    "a removal of an unknown key": ({"user": "b"}, {"nonsense": None}),
    "nobody": ({}, {"producer_byte_rate": 1}),
    "an empty name": ({"user": ""}, {"producer_byte_rate": 1}),
    "an unknown type": ({"group": "g"}, {"producer_byte_rate": 1}),
    "an address and a user": ({"user": "a", "ip": "10.0.0.1"}, {"producer_byte_rate": 1}),
    "no address": ({"ip": "no.such.host.invalid"}, {"connection_creation_rate": 1}),
    "an unknown key": ({"user": "a"}, {"nonsense": 1}),
    "a key of clients for an address": ({"ip": "10.0.0.1"}, {"producer_byte_rate": 1}),
    "a key of addresses for a user": ({"user": "a"}, {"connection_creation_rate": 1}),
    "a fraction": ({"user": "a"}, {"producer_byte_rate": 1.5}),
    "nearly a whole number": ({"user": "n"}, {"producer_byte_rate": 5 + 1e-9}),
    "a fraction of connections": ({"ip": "10.0.0.1"}, {"connection_creation_rate": 1.5}),
    "nothing": ({"user": "a"}, {"producer_byte_rate": 0}),
    "less than nothing": ({"user": "a"}, {"request_percentage": -1}),
    "too many bytes": ({"user": "a"}, {"producer_byte_rate": 1e19}),
    "too many connections": ({"ip": "10.0.0.1"}, {"connection_creation_rate": 3e9}),
    "a good and a bad key": ({"user": "z"}, {"producer_byte_rate": 1, "nonsense": 1}),
}
DESCRIBED: dict[str, tuple[list[tuple[str, int, str | None]], bool]] = {
    "everything": ([], False),
    "nothing, strictly": ([], True),
    "a user": ([("user", 0, "a")], False),
    "a user, strictly": ([("user", 0, "a")], True),
    "the default user": ([("user", 1, None)], True),
    "every user": ([("user", 2, None)], True),
    "pairs": ([("user", 2, None), ("client-id", 2, None)], True),
    "an address": ([("ip", 0, "10.0.0.1")], True),
    "addresses": ([("ip", 2, None)], False),
    "an empty type": ([("", 0, "a")], False),
    "an unknown type": ([("group", 0, "a")], False),
    "a type twice": ([("user", 0, "a"), ("user", 2, None)], False),
    "no name": ([("user", 0, None)], False),
    "a name too many": ([("user", 1, "a")], False),
    "another name too many": ([("user", 2, "a")], False),
    "an unknown match": ([("user", 7, None)], False),
    "an address and a user": ([("ip", 2, None), ("user", 2, None)], False),
}
OTHER_WORDS = {"alter: no address", "alter: an address and a user"}
"""Where the code is the same, and the message is ours."""


@pytest.fixture(scope="module")
def tierfetch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("tierfetch"), (1,)) as cluster:
        yield cluster


@asynccontextmanager
async def client() -> AsyncIterator[KafkaClient]:
    made = KafkaClient(client_id="quotas", random=Random(1))
    try:
        yield made
    finally:
        await made.close()


async def answers_of(port: int) -> dict[str, Any]:
    """Alter, then describe; each answer by name, without what has no order."""
    answers: dict[str, Any] = {}
    address = Address("127.0.0.1", port)
    async with client() as asking:

        async def ask(api: ApiKey, body: dict[str, Any]) -> Any:
            return plain(await asking.send(address, request_of(api, body, 1), max_version=1, timeout_s=TIMEOUT_S))

        for name, (parts, values) in ALTERED.items():
            entity = [{"entity_type": kind, "entity_name": value} for kind, value in parts.items()]
            ops = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in values.items()]
            body = {"entries": [{"entity": entity, "ops": ops}], "validate_only": False}
            (entry,) = (await ask(ApiKey.ALTER_CLIENT_QUOTAS, body))["entries"]
            answers[f"alter: {name}"] = entry["error_code"].name, entry["error_message"]
        for _ in poll(TIMEOUT_S, "the quotas to be seen"):
            found = await ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, {"components": [], "strict": False})
            if any(part["entity_name"] == "n" for entry in found["entries"] for part in entry["entity"]):
                break
        for name, (components, strict) in DESCRIBED.items():
            asked = [{"entity_type": kind, "match_type": how, "match": match} for kind, how, match in components]
            found = await ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, {"components": asked, "strict": strict})
            answers[f"describe: {name}"] = found["error_code"].name, found["error_message"], described(found["entries"])
    return answers


def described(entries: Any) -> Any:
    return entries and sorted(
        (
            sorted((part["entity_type"], part["entity_name"] or "") for part in entry["entity"]),
            sorted((value["key"], value["value"]) for value in entry["values"]),
        )
        for entry in entries
    )


async def test_kafka_and_tierfetch_answer_the_same(cluster: KafkaCluster, tierfetch: LocalCluster) -> None:
    try:
        kafkas = await answers_of(cluster.port(BROKER))
    finally:
        assert await remove_quotas(cluster.port(BROKER))
    ours = await answers_of(tierfetch.port(BROKER))
    for name in OTHER_WORDS:
        assert kafkas.pop(name)[0] == ours.pop(name)[0]
    assert {name: (ours[name], said) for name, said in kafkas.items() if ours[name] != said} == {}


def kafka_configs(servers: str, *arguments: str) -> str:
    return kafka_tool(CONFIGS, servers, *arguments)


@pytest.mark.parametrize(
    ("kind", "config", "shown"),
    [
        ("users", "producer_byte_rate=1048576,request_percentage=25", "producer_byte_rate=1048576.0"),
        ("clients", "consumer_byte_rate=2097152", "consumer_byte_rate=2097152.0"),
        ("ips", "connection_creation_rate=10", "connection_creation_rate=10.0"),
    ],
)
def test_kafka_configs_works_unchanged(
    kafka: Path, tierfetch: LocalCluster, kind: str, config: str, shown: str
) -> None:
    name = "10.1.2.3" if kind == "ips" else "alice"
    servers, entity = tierfetch.bootstrap_servers, ("--entity-type", kind, "--entity-name", name)
    assert "Completed updating config" in kafka_configs(servers, "--alter", *entity, "--add-config", config)
    for _ in poll(TIMEOUT_S, "the quota to be shown"):
        if shown in kafka_configs(servers, "--describe", *entity):
            break
    default = ("--entity-type", kind, "--entity-default")
    assert "Completed" in kafka_configs(servers, "--alter", *default, "--add-config", config)
    key = config.partition("=")[0]
    assert "Completed" in kafka_configs(servers, "--alter", *entity, "--delete-config", key)
    for _ in poll(TIMEOUT_S, "the quota to be gone"):
        if shown not in kafka_configs(servers, "--describe", *entity):
            break
    assert shown in kafka_configs(servers, "--describe", "--entity-type", kind)


def test_kafka_configs_lists_scram_credentials_with_quotas(kafka: Path, tierfetch: LocalCluster) -> None:
    servers, bob = tierfetch.bootstrap_servers, ("--entity-type", "users", "--entity-name", "bob")
    kafka_configs(servers, "--alter", *bob, "--add-config", "SCRAM-SHA-256=[password=pencil]")
    kafka_configs(servers, "--alter", *bob, "--add-config", "consumer_byte_rate=4096")
    for _ in poll(TIMEOUT_S, "both to be shown"):
        told = kafka_configs(servers, "--describe", "--entity-type", "users")
        if "SCRAM-SHA-256=iterations=4096" in told and "consumer_byte_rate=4096.0" in told:
            break
