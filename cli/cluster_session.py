"""An operator's requests to a cluster; any broker will do."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import field
from typing import Final, Self, TypeVar
from uuid import UUID

import click

from ..light_dataclass import dataclass
from ..protocol import OUTSIDE, ApiKey, ErrorCode, KafkaError, OperatorError, metadata_of
from ..protocol.messages import Request, ResponseT, WithError, WithErrorMessage
from ..protocol.messages.cluster import MetadataResponsePartition
from ..protocol.net import Address, BrokerUnavailableError
from ..security import read_client_file
from .command_config import command_config_option, has_identity, make_client, use_identity
from .options import addresses
from .profiles import (
    DEFAULT_ORIGIN,
    ORDER,
    Chosen,
    Given,
    choose_cluster,
    explicit_cluster,
    named_cluster,
    read_profiles,
    running_clusters,
)

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., object])

TIMEOUT_S: Final = 30.0
NOTICE_S: Final = 3.0
"""After so long without a response a command says on which broker it waits, and for how long at most."""
LEARNED_MAX: Final = 32
"""How many addresses are kept beside those that were named: in a cluster whose brokers come and go, the latest."""
_PROFILE: Final = "tierfetch.cli.profile"
_ORIGIN: Final = "tierfetch.cli.cluster_origin"


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
    """`async with Admin(bootstrap) as admin:`; each question within `timeout_s`. OSError, KafkaError.

    The broker that answered last is asked first, so that one that hangs costs its timeout once. `notice` gets a
    sentence, once for each broker, when a response takes longer than `NOTICE_S`.
    """

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        timeout_s: float = TIMEOUT_S,
        notice: Callable[[str], None] | None = None,
    ) -> None:
        self._bootstrap = list(bootstrap)
        self._named = frozenset(bootstrap)
        self._learned: dict[Address, None] = {}
        self._timeout_s = timeout_s
        self._notice = notice
        self._noticed: set[Address] = set()

    async def __aenter__(self) -> Self:
        self._client = make_client()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def send(self, request: Request[ResponseT]) -> ResponseT:
        """Return the response of the first broker that has one; KafkaError if it is an error as a whole."""
        failure: OSError = BrokerUnavailableError("no broker was named")
        for address in tuple(self._bootstrap):
            try:
                answer = await self.send_to(address, request)
            except OSError as error:
                failure = error if str(address) in str(error) else BrokerUnavailableError(f"{address}: {error}")
                continue
            self._bootstrap.sort(key=lambda each: each != address)
            return answer
        raise failure

    def when_lost(self, call: Callable[[], None]) -> None:
        """Call this whenever a connection that was established has ended, from now on."""
        self._client.on_lost = call

    def learn(self, brokers: Iterable[Address]) -> None:
        """Ask these too, after those that are known: a long session outlives the broker that it began with. The
        addresses that were learned the longest ago are forgotten.
        """
        for address in brokers:
            self._learned.pop(address, None)
            self._learned[address] = None
        for address in list(self._learned)[:-LEARNED_MAX]:
            del self._learned[address]
        kept = [address for address in self._bootstrap if address in self._named or address in self._learned]
        self._bootstrap = list(dict.fromkeys([*kept, *self._learned]))
        self._noticed.intersection_update(self._bootstrap)

    async def send_to(self, address: Address, request: Request[ResponseT]) -> ResponseT:
        """Return this broker's response; KafkaError if it is an error as a whole."""
        name = ApiKey(request.api_key).name
        notice = asyncio.get_running_loop().call_later(NOTICE_S, self._say_wait, address, name)
        try:
            response = await self._client.send(address, request, timeout_s=self._timeout_s)
        finally:
            notice.cancel()
        check(response, f"{name} at {address}")
        return response

    def _say_wait(self, address: Address, name: str) -> None:
        if self._notice is not None and address not in self._noticed:
            self._noticed.add(address)
            self._notice(f"waiting for {address} to answer {name}, at most {self._timeout_s:g} s")

    async def cluster(self, topics: Sequence[str] | None = None, *, at: Address | None = None) -> Cluster:
        """The live brokers, and the named topics or all of them, by name: as `at` knows them, or any broker."""
        request = metadata_of(topics)
        answer = await (self.send(request) if at is None else self.send_to(at, request))
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
    said = f"A broker of the cluster; repeatable. Without it, in this order: {ORDER}."
    return _cluster_options(cluster_servers, said)(command)


def explicit_bootstrap_option(what_for: str) -> Callable[[Command], Command]:
    """Add the same options to a command that can do without a cluster: `bootstrap` is empty unless the command line or
    the environment names one.
    """
    said = f"{what_for} A broker; repeatable. Without it: --profile, TIERFETCH_BOOTSTRAP, TIERFETCH_PROFILE, or none."
    return _cluster_options(explicit_servers, said)


def _cluster_options(choose: Callable[[tuple[str, ...]], tuple[str, ...]], said: str) -> Callable[[Command], Command]:
    def callback(context: click.Context, _: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
        return () if context.resilient_parsing else choose(given)

    option = click.option("--bootstrap", multiple=True, metavar="HOST:PORT", callback=callback, help=said)
    return lambda command: option(profile_option(command_config_option(command)))


def profile_option(command: Command) -> Command:
    """Add `--profile`; the command's function does not get it."""
    return click.option(
        "--profile",
        metavar="NAME",
        is_eager=True,
        expose_value=False,
        callback=_note_profile,
        help="A cluster by the name that tierfetch profile add has given it.",
    )(command)


def _note_profile(context: click.Context, _: click.Parameter, name: str | None) -> None:
    context.meta[_PROFILE] = name


def is_cluster_named() -> bool:
    """Return whether the running command was given a profile on its command line."""
    return click.get_current_context().meta.get(_PROFILE) is not None


def cluster_servers(bootstrap: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the servers of the cluster that the running command means, and have it connect as their profile says.
    ClickException if nothing says which it is.
    """
    return _servers(bootstrap, lambda given: choose_cluster(given, read_profiles, running_clusters))


def named_servers(bootstrap: tuple[str, ...]) -> tuple[str, ...]:
    """Return the same where the command line, the environment or the profile in use names a cluster, else nothing."""
    return _servers(bootstrap, lambda given: named_cluster(given, read_profiles))


def explicit_servers(bootstrap: tuple[str, ...]) -> tuple[str, ...]:
    """Return the same where the command line or the environment names a cluster, else nothing."""
    return _servers(bootstrap, lambda given: explicit_cluster(given, read_profiles))


def _servers(bootstrap: tuple[str, ...], choose: Callable[[Given], Chosen | None]) -> tuple[str, ...]:
    given = Given(
        bootstrap=bootstrap,
        profile=click.get_current_context().meta.get(_PROFILE),
        environment_bootstrap=os.environ.get("TIERFETCH_BOOTSTRAP"),
        environment_profile=os.environ.get("TIERFETCH_PROFILE"),
    )
    try:
        chosen = choose(given)
        if chosen is None:
            return ()
        if chosen.command_config is not None and not has_identity():
            use_identity(read_client_file(chosen.command_config, chosen.origin))
        addresses(chosen.servers, chosen.origin)
    except OperatorError as error:
        raise click.ClickException(str(error)) from None
    click.get_current_context().meta[_ORIGIN] = chosen.origin
    return chosen.servers


def origin_hint() -> str:
    """Return what to add to an error of a connection: what chose the cluster, unless the operator named its broker."""
    context = click.get_current_context(silent=True)
    origin = None if context is None else context.meta.get(_ORIGIN)
    if origin in (None, "--bootstrap"):
        return ""
    if origin == DEFAULT_ORIGIN:
        return "; start a cluster with tierfetch cluster up, or name a broker with --bootstrap HOST:PORT"
    return f" ({origin})"


def to_stderr(text: str) -> None:
    click.echo(text, err=True)


def run(
    bootstrap: Sequence[str],
    work: Callable[[Admin], Coroutine[None, None, T]],
    *,
    timeout_s: float = TIMEOUT_S,
    notice: Callable[[str], None] | None = to_stderr,
) -> T:
    """`work` with an open session; what a cluster refuses is said in one line, with exit code 1."""

    async def session() -> T:
        async with Admin(addresses(bootstrap), timeout_s=timeout_s, notice=notice) as admin:
            return await work(admin)

    try:
        return asyncio.run(session())
    except OSError as error:
        raise click.ClickException(f"{error}{origin_hint()}") from None
    except OUTSIDE as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        sys.exit(130)
