"""Bugs that show in what is done last in a run, once a cluster is at rest (`sim/scenarios/looks`)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any
from unittest.mock import patch

from tierfetch.broker.groups.core.consumer import classic
from tierfetch.controller.core import describe_configs
from tierfetch.controller.core.quotas import alter
from tierfetch.fetcher.embedded import EmbeddedFollower
from tierfetch.log import embedded
from tierfetch.log.core.epochs import EpochEntry
from tierfetch.log.replica import takeover
from tierfetch.remote import survey
from tierfetch.remote.core import snapshot
from tierfetch.tests.sim.planted.registry import planted


@planted("a survey ends a segment before its last record", file="remote/survey.py", scenario="cluster")
def surveyed_too_short() -> Iterator[None]:
    original = survey._find_end

    def find_end(named: Any, position: int) -> Generator[Any, Any, int]:
        end_offset = yield from original(named, position)
        return max(named.start_offset, end_offset - 1)

    with patch.object(survey, "_find_end", find_end):
        yield


@planted("a follower has caught up once it has a leader", file="fetcher/embedded.py", scenario="cluster")
def caught_up_at_once() -> Iterator[None]:
    with patch.object(EmbeddedFollower, "is_caught_up", property(lambda self: self._leader is not None)):
        yield


@planted(
    "a ledger snapshot lacks the last segment of a section",
    file="remote/core/snapshot.py",
    scenario="cluster",
)
def snapshot_too_short() -> Iterator[None]:
    original: Callable[[bytes], Iterator[bytes]] = snapshot._decode_rows

    def decode_rows(body: bytes) -> Iterator[bytes]:
        rows = list(original(body))
        return iter(rows[:-1])

    with patch.object(snapshot, "_decode_rows", decode_rows):
        yield


@planted(
    "a controller describes a topic by Kafka's defaults, whatever is its own",
    file="controller/core/describe_configs.py",
    scenario="cluster",
)
def defaults_win() -> Iterator[None]:
    original = describe_configs._config

    def config(name: str, places: list[tuple[str, Any]], *, is_read_only: bool = False) -> Any:
        return original(name, places[::-1], is_read_only=is_read_only)

    with patch.object(describe_configs, "_config", config):
        yield


@planted(
    "a member of the classic protocol is not called to join a group of KIP-848 again",
    file="broker/groups/core/consumer/classic.py",
    scenario="workers",
    classic_group=(False,),
)
def not_called() -> Iterator[None]:
    with patch.object(classic, "_has_step", lambda *_: False):
        yield


@planted(
    "a log that was moved keeps its latest leader epoch alone",
    file="log/replica/takeover.py",
    scenario="cluster",
    log_directories=(2,),
)
def moved_without_epochs() -> Iterator[None]:
    original = takeover.encode_leader_epochs

    def encode(entries: list[EpochEntry]) -> bytes:
        return original(list(entries)[-1:])

    with patch.object(takeover, "encode_leader_epochs", encode):
        yield


@planted("a log of one's own returns before it has flushed", file="log/embedded.py", scenario="cluster")
def returned_before_flushed() -> Iterator[None]:
    original = embedded.EmbeddedLog.__init__

    def init(self: Any, log: Any, fsync: bool, now_ms: Callable[[], int]) -> None:
        original(self, log, False, now_ms)

    with patch.object(embedded.EmbeddedLog, "__init__", init):
        yield


@planted("a quota is set for what is no address", file="controller/core/quotas/alter.py", scenario="cluster")
def strange_address() -> Iterator[None]:
    with patch.object(alter, "_check_address", lambda _: None):
        yield
