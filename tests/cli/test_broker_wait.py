"""Waiting for a broker that comes back: what is seen, in which order, and when it ends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from click.testing import CliRunner

from tierfetch.cli.admin import broker_wait
from tierfetch.cli.admin.broker_wait import BrokerProgress, WaitingBar, some, wait_for
from tierfetch.cli.admin.local_state import LocalState
from tierfetch.cli.cluster_session import Cluster, ListedTopic
from tierfetch.cli.main import cli
from tierfetch.protocol import TopicPartition
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.extensions import NOT_THIN, NOT_WARMED
from tierfetch.protocol.messages.cluster import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
    MetadataResponsePartition,
)
from tierfetch.protocol.net.client import Address, BrokerUnavailableError
from tierfetch.testing import InProcessCluster

HERE = Address("127.0.0.1", 1)
Look = tuple[set[int], list[list[int]], int] | tuple[set[int], list[list[int]], int, int]
"""(brokers that live, the ISR of each partition, bytes to come from the tier, ms until a thin replica is warm)."""


class Admin:
    """Replicas on brokers 1 and 2; each look sees the next state, the last one for good. The broker that is waited for
    sees the same, unless `own` says what it sees: at each question the next, then what all see.
    """

    def __init__(self, *looks: Look | None, own: Sequence[Look | None] = ()) -> None:
        self._looks = list(looks)
        self._own = list(own)
        self._warming = NOT_WARMED
        self._warm_in_ms = NOT_THIN

    async def cluster(self, *, at: Address | None = None) -> Cluster:
        if at is None:
            self._look = self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]
        look = self._own.pop(0) if at is not None and self._own else self._look
        if look is None:
            raise BrokerUnavailableError("nobody answers")
        alive, isrs, self._warming = look[:3]
        self._warm_in_ms = look[3] if len(look) == 4 else NOT_THIN
        parts = tuple(
            MetadataResponsePartition(partition_index=index, leader_id=1, replica_nodes=(1, 2), isr_nodes=tuple(isr))
            for index, isr in enumerate(isrs)
        )
        return Cluster(dict.fromkeys(alive, HERE), {}, (ListedTopic("t", None, parts),))

    async def send_to(self, *_: object) -> DescribeLogDirsResponse:
        part = DescribeLogDirsPartition(
            partition_index=0,
            partition_size=5,
            offset_lag=0,
            is_future_key=False,
            warming_bytes_left=self._warming,
            warming_bytes_per_second=1000,
            warm_in_ms=self._warm_in_ms,
        )
        topics = (DescribeLogDirsTopic(name="t", partitions=(part,)),)
        return DescribeLogDirsResponse(results=(DescribeLogDirsResult(log_dir="/d", topics=topics),))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_wait, "LOOK_INTERVAL_S", 0.0)


async def waited(
    *looks: Look | None, own: Sequence[Look | None] = (), warm: bool = False, timeout_s: float = 5.0
) -> Sequence[str]:
    seen: list[str] = []
    admin: Any = Admin(*looks, own=own)
    await wait_for(admin, 2, lambda each: seen.append(str(each)), with_warming=warm, timeout_s=timeout_s)
    return seen


async def test_until_every_replica_is_in_sync() -> None:
    assert await waited(
        ({1}, [[1], [1]], NOT_WARMED), None, ({1, 2}, [[1], [1, 2]], NOT_WARMED), ({1, 2}, [[1, 2], [2, 1]], 4000)
    ) == [
        "broker 2 is not alive: it is fenced or not registered",
        "broker 2: 1 of 2 replicas are in sync; not yet t-0 (leader 1)",
        "broker 2: 2 of 2 replicas are in sync",
    ]


async def test_what_the_others_say_of_the_incarnation_that_was_killed_does_not_count() -> None:
    before_the_kill: Look = ({1, 2}, [[1, 2], [1, 2]], NOT_WARMED)
    own: list[Look | None] = [None, ({1}, [[1], [1]], NOT_WARMED), ({1, 2}, [[1], [1, 2]], NOT_WARMED)]
    assert await waited(before_the_kill, own=own) == [
        "broker 2 is not alive: it is fenced or not registered",
        "broker 2: 1 of 2 replicas are in sync; not yet t-0 (leader 1)",
        "broker 2: 2 of 2 replicas are in sync",
    ]
    said = "broker 2 does not respond at 127.0.0.1:1, though other brokers list it: nobody answers, after 0 s"
    with pytest.raises(KafkaError, match=said):
        await waited(before_the_kill, own=[None], timeout_s=0)


async def test_and_until_nothing_more_comes_from_the_tier() -> None:
    both = [[1, 2], [1, 2]]
    assert await waited(({1, 2}, both, 4000), ({1, 2}, both, NOT_WARMED), warm=True) == [
        "broker 2: 3.9 KiB, 0:00:04 to come from the tier",
        "broker 2: 2 of 2 replicas are in sync",
    ]


async def test_F11_and_until_no_replica_is_thin_though_nothing_comes_from_the_tier() -> None:
    both = [[1, 2], [1, 2]]
    looks: list[Look] = [
        ({1, 2}, both, NOT_WARMED, 90_000),
        ({1, 2}, both, 4000, 89_500),
        ({1, 2}, both, NOT_WARMED, 400),
        ({1, 2}, both, NOT_WARMED),
    ]
    assert await waited(*looks, warm=True) == [
        "broker 2: 1 of 2 replicas are thin (t-0), warm in 0:01:30 at the latest",
        "broker 2: 1 of 2 replicas are thin (t-0), warm in 0:01:30 at the latest; 3.9 KiB, 0:00:04 to come from the"
        " tier",
        "broker 2: 1 of 2 replicas are thin (t-0), warm in 0:00:01 at the latest",
        "broker 2: 2 of 2 replicas are in sync",
    ]
    assert await waited(*looks) == ["broker 2: 2 of 2 replicas are in sync"]


async def test_a_broker_that_does_not_tell_what_it_lacks_is_not_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object) -> None:
        raise KafkaError(ErrorCode.cluster_authorization_failed, "no")

    monkeypatch.setattr(Admin, "send_to", refuse)
    with pytest.raises(KafkaError, match="broker 2 does not report what it has to read from the tier, after 0 s"):
        await waited(({1, 2}, [[1, 2]], NOT_WARMED), warm=True, timeout_s=0)


@pytest.mark.parametrize(
    ("look", "said"),
    [
        (({1, 2}, [[1], [1, 2]], NOT_WARMED), r"1 of 2 replicas are in sync; not yet t-0 \(leader 1\), after 0 s"),
        (None, "nobody answers, after 0 s"),
    ],
)
async def test_it_says_how_far_it_was_when_the_time_is_over(look: Look | None, said: str) -> None:
    with pytest.raises(KafkaError, match=said) as caught:
        await waited(look, timeout_s=0)
    assert caught.value.code is ErrorCode.request_timed_out


def test_off_a_terminal_each_change_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with WaitingBar() as bar:
        for in_sync in (1, 1, 2):
            bar.show(BrokerProgress(2, is_alive=True, replicas=2, in_sync=in_sync))
    printed = capsys.readouterr().err.splitlines()
    assert printed == ["broker 2: 1 of 2 replicas are in sync", "broker 2: 2 of 2 replicas are in sync"]


def test_off_a_terminal_a_long_wait_is_a_line_every_half_minute(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    with WaitingBar(clock=lambda: now[0]) as bar:
        for now[0] in (0.0, 0.5, 29.5, 30.0, 45.0, 60.0):
            bar.show(BrokerProgress(2, is_alive=True, replicas=2, in_sync=1))
    printed = capsys.readouterr().err.splitlines()
    text = "broker 2: 1 of 2 replicas are in sync"
    assert printed == [text, f"{text}, for 0:00:30 so far", f"{text}, for 0:01:00 so far"]


async def test_it_says_which_replicas_the_broker_cannot_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    async def state(*_: object) -> LocalState:
        return LocalState(5, {}, out_of_service=frozenset({TopicPartition("t", 0)}))

    monkeypatch.setattr(broker_wait, "local_state", state)
    said = r"not yet t-0 \(leader 1\); the broker cannot serve t-0: its log says why, after 0 s"
    with pytest.raises(KafkaError, match=said):
        await waited(({1, 2}, [[1], [1, 2]], NOT_WARMED), timeout_s=0)


def test_of_many_replicas_three_are_named() -> None:
    assert some(["a", "b", "c"]) == "a, b, c"
    assert some(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


@pytest.mark.slow
@pytest.mark.tierfetch(brokers=2)
def test_F11_a_wiped_brokers_replica_is_thin_and_warm_waits_for_it(tierfetch_cluster: InProcessCluster) -> None:
    cluster = tierfetch_cluster
    cluster.create_topic("t", 1, tiered=True)
    cluster.produce("t", b"one", b"two")
    cluster.roll_segments("t")
    cluster.wait_tiered("t")
    wiped = 3 - cluster.leader("t")
    cluster.kill(wiped)
    cluster.start(wiped, wipe=True)
    cluster.wait_isr("t")

    def run(*words: str):
        return CliRunner().invoke(cli, [*words, "--bootstrap", cluster.bootstrap])

    in_sync = run("brokers", "wait", str(wiped), "--timeout", "60")
    assert in_sync.exit_code == 0, in_sync.output
    warm = run("brokers", "wait", str(wiped), "--warm", "--timeout", "1")
    assert warm.exit_code == 1
    assert "replicas are thin (t-0), warm in " in warm.stderr
    (row,) = json.loads(run("topics", "describe", "t", "--json").stdout)
    assert row["thin"] == [wiped]
    rows = json.loads(run("brokers", "list", "--json").stdout)
    assert {row["broker"]: row["thin"] for row in rows} == {wiped: 1, 3 - wiped: 0}
