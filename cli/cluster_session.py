"""An operator's requests to a cluster; any broker will do."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Final, Self, TypeVar
from uuid import UUID

import click

from ..protocol import OUTSIDE, ApiKey, ErrorCode, KafkaError
from ..protocol.messages.base import Request, ResponseT
from ..protocol.messages.cluster import MetadataResponsePartition
from ..protocol.messages.errors import WithError, WithErrorMessage
from ..protocol.net.client import Address, BrokerUnavailableError
from ..protocol.requests import metadata_of
from .command_config import command_config_option, make_client
from .options import addresses

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., object])

TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class ListedTopic:
    """A topic that exists. `topic_id` is None where the broker knows no ids (Kafka before 2.8)."""

    name: str
    topic_id: UUID | None
    partitions: tuple[MetadataResponsePartition, ...]


@dataclass(frozen=True, slots=True)
class Cluster:
    """Metadata's answer. `topic_ids` is empty where the broker knows no ids."""

    brokers: dict[int, Address]
    racks: dict[int, str | None]
    topics: tuple[ListedTopic, ...]
    topic_ids: dict[str, UUID] = field(default_factory=dict)


class Admin:
    """`async with Admin(bootstrap) as admin:`; each question within `TIMEOUT_S`. OSError, KafkaError."""

    def __init__(self, bootstrap: Sequence[Address]) -> None:
        self._bootstrap = list(bootstrap)

    async def __aenter__(self) -> Self:
        self._client = make_client()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def send(self, request: Request[ResponseT]) -> ResponseT:
        """Return the response of the first broker that has one; KafkaError if it is an error as a whole."""
        failure: OSError = BrokerUnavailableError("no broker was named")
        for address in self._bootstrap:
            try:
                return await self.send_to(address, request)
            except OSError as error:
                failure = error if str(address) in str(error) else BrokerUnavailableError(f"{address}: {error}")
        raise failure

    async def send_to(self, address: Address, request: Request[ResponseT]) -> ResponseT:
        """Return this broker's response; KafkaError if it is an error as a whole."""
        response = await self._client.send(address, request, timeout_s=TIMEOUT_S)
        check(response, f"{ApiKey(request.api_key).name} at {address}")
        return response

    async def cluster(self, topics: Sequence[str] | None = None) -> Cluster:
        """The brokers that are alive, and the named topics or all of them, by name."""
        answer = await self.send(metadata_of(topics))
        found = sorted(answer.topics, key=lambda topic: topic.name or "")
        for topic in found:
            if topics is not None and topic.error_code is ErrorCode.unknown_topic_or_partition:
                raise KafkaError(topic.error_code, f"topic {topic.name} does not exist")
            if topics is not None:
                check(topic, f"topic {topic.name}")
        existing = tuple(
            ListedTopic(topic.name or "", topic.topic_id, topic.partitions)
            for topic in found
            if topic.error_code is ErrorCode.none
        )
        return Cluster(
            brokers={broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers},
            racks={broker.node_id: broker.rack for broker in answer.brokers},
            topics=existing,
            topic_ids={topic.name: topic.topic_id for topic in existing if topic.topic_id is not None},
        )


def check(answer: object, what: str) -> None:
    """KafkaError if the answer, or this part of one, is an error."""
    if isinstance(answer, WithError) and answer.error_code is not ErrorCode.none:
        message = answer.error_message if isinstance(answer, WithErrorMessage) else None
        raise KafkaError(answer.error_code, f"{what}: {message or 'refused'}")


def bootstrap_option(command: Command) -> Command:
    """Add the options that say which cluster, and how to connect to it."""
    option = click.option(
        "--bootstrap",
        multiple=True,
        default=("127.0.0.1:9092",),
        show_default=True,
        metavar="HOST:PORT",
        help="A broker of the cluster; repeatable.",
    )
    return option(command_config_option(command))


def run(bootstrap: Sequence[str], work: Callable[[Admin], Coroutine[None, None, T]]) -> T:
    """`work` with an open session; what a cluster refuses is said in one line, with exit code 1."""

    async def session() -> T:
        async with Admin(addresses(bootstrap)) as admin:
            return await work(admin)

    try:
        return asyncio.run(session())
    except OUTSIDE as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        sys.exit(130)
