"""A hostile voter among three controllers: it is in the place of one of them, and asks and answers what it likes.

The quorum survives one voter that lies about itself: two honest ones are a majority. While it attacks there may be no
leader for a time, for a voter may stand for election; brokers, with the session timeout as shipped, serve their clients
all the same, nothing is bricked, and when it is over the quorum has a leader, which decides, also after a restart of
the controllers and with the honest voter in its place again.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import pytest
from confluent_kafka import KafkaException

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.cli.local.quorum import LocalQuorum
from tierfetch.errors import OperatorError
from tierfetch.log.core import META_PROPERTIES, decode_meta_properties
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.messages import quorum as kafka
from tierfetch.protocol.topics import CLUSTER_METADATA_TOPIC
from tierfetch.tests.abuse.peers import HostileNode, ask
from tierfetch.tests.abuse.voter import HUGE, REQUESTS, HostileVoter
from tierfetch.tests.abuse.watched import ONLY_PINGS, Watched, watched_node
from tierfetch.tests.process.clients import create_topic

FIRST: Final = 101
ATTACK_S: Final = 3.0
AT_ONCE: Final = 4
WAIT_S: Final = 90.0
LOG_BYTES_MAX: Final = 2 * 1024 * 1024
"""What a controller may log in one attack: elections are lines, thousands of refusals are not."""


@dataclass
class Place:
    """A cluster whose controller `taken` is stopped, and the voter in its place."""

    quorum: LocalQuorum
    brokers: LocalCluster
    taken: int
    voter: HostileVoter
    node: HostileNode
    rng: Random

    @property
    def honest(self) -> list[int]:
        return [node for node in self.quorum.nodes if node != self.taken]

    def attack(self, *apis: ApiKey) -> None:
        """Send requests to the other voters for a time, each on a connection of its own."""
        ends_s = time.monotonic() + ATTACK_S

        def some(rng: Random) -> tuple[int, int]:
            sent = answered = 0
            while time.monotonic() < ends_s or not answered:
                sent += 1
                port = self.quorum.port(rng.choice(self.honest))
                with contextlib.suppress(OSError):
                    ask(port, self.voter.drawn(rng.choice(apis), rng))
                    answered += 1
            return sent, answered

        with ThreadPoolExecutor(AT_ONCE) as threads:
            counts = list(threads.map(some, [Random(self.rng.random()) for _ in range(AT_ONCE)]))
        sent, answered = (sum(numbers) for numbers in zip(*counts, strict=True))
        sys.stdout.write(f"\n{sent} requests, {answered} answered, {sum(self.node.asked.values())} received\n")

    def decides(self, name: str) -> None:
        """Wait until the quorum has a leader that takes decisions."""
        refusals: list[Exception] = []

        def what() -> str:
            tails = [self.quorum.log_tail(node) for node in self.honest]
            return f"a leader of the quorum, after {len(refusals)} refusals, {refusals[-3:]}: {tails}"

        for _ in poll(WAIT_S, what):
            try:
                status = self.quorum.status()
                assert status["LeaderEpoch"] < HUGE
                # Another name each time: one that nobody has answered may have been made.
                create_topic(self.brokers.bootstrap_servers, f"{name}-{len(refusals)}", replicas=1)
            except (OSError, OperatorError, KafkaException) as error:
                refusals.append(error)
            else:
                return


@pytest.fixture(scope="module", params=[False, True], ids=["static voters", "dynamic voters"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    base: Path = tmp_path_factory.mktemp("abuse")
    with LocalQuorum(base, 3, dynamic=request.param, first_id=FIRST) as quorum:
        if quorum.dynamic:
            for node in quorum.nodes[1:]:
                servers = ["--bootstrap-controller", quorum.bootstrap_controllers]
                quorum.tool("quorum", "add", "--config", str(quorum.config_file(node)), *servers)
        with LocalCluster(base, (1,), controllers=quorum.bootstrap_controllers) as brokers:
            create_topic(brokers.bootstrap_servers, "t", replicas=1)
            status = quorum.status()
            taken = next(node for node in reversed(quorum.nodes) if node != status["LeaderId"])
            quorum.stop(taken)
            path = quorum.data_directory(taken) / META_PROPERTIES
            directory_id = decode_meta_properties(path.read_bytes(), name=str(path)).directory_id
            others = tuple(node for node in quorum.nodes if node != taken)
            port, rng = quorum.port(taken), Random(1)
            voter = HostileVoter(taken, directory_id, quorum.cluster_id, others, port, status["LeaderEpoch"])
            with HostileNode(port) as node:
                voter.answers(node, rng)
                yield Place(quorum, brokers, taken, voter, node, rng)


@pytest.fixture(scope="module")
def watched(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Watched]]:
    """Watch the broker, and the honest controllers, which are only pinged."""
    base = tmp_path_factory.mktemp("honest")
    with contextlib.ExitStack() as stack:
        nodes = [watched_node(place.quorum, node, ONLY_PINGS, base) for node in place.honest]
        yield [stack.enter_context(each) for each in (watched_node(place.brokers, 1, "t", base), *nodes)]


@pytest.fixture
def recovered(place: Place, unharmed: None) -> Iterator[None]:
    """The honest clients notice nothing, the log stays small, and the quorum has a leader again."""
    logs = [place.quorum.log_file(node) for node in place.honest]
    before = [log.stat().st_size for log in logs]
    yield
    assert all(log.stat().st_size - size < LOG_BYTES_MAX for log, size in zip(logs, before, strict=True))
    assert place.node.errors == []
    place.decides(f"after-{place.rng.randrange(2**32)}")


def is_right(place: Place) -> None:
    for nodes, running in ((place.quorum, place.honest), (place.brokers, [1])):
        for node in running:
            assert nodes.process(node).poll() is None, nodes.log_tail(node)
            log = nodes.log_file(node).read_text()
            assert "Traceback" not in log
            assert "internal error" not in log


ATTACKS: Final = {
    "votes": (ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH),
    "fetches": (ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT, ApiKey.DESCRIBE_QUORUM),
    "changes": (ApiKey.UPDATE_RAFT_VOTER, ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER),
    "all": tuple(REQUESTS),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_what_a_voter_asks(place: Place, recovered: None, name: str) -> None:
    place.attack(*ATTACKS[name])


def test_no_request_says_where_a_leader_is_asked(place: Place, recovered: None) -> None:
    """What answers there would be believed: of any epoch, of a divergence, of another cluster."""
    with HostileNode() as stranger:
        listener = kafka.BeginQuorumEpochRequestLeaderEndpoint(name="CONTROLLER", host="127.0.0.1", port=stranger.port)
        for step in range(20):
            partition = kafka.BeginQuorumEpochRequestPartitionData(
                partition_index=0, leader_id=place.rng.choice(place.quorum.nodes), leader_epoch=place.voter.epoch + step
            )
            topic = kafka.BeginQuorumEpochRequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=(partition,))
            request = kafka.BeginQuorumEpochRequest(
                cluster_id=place.quorum.cluster_id, topics=(topic,), leader_endpoints=(listener,)
            )
            for node in place.honest:
                with contextlib.suppress(OSError):
                    ask(place.quorum.port(node), request)
        place.decides("with-a-stranger")
        assert stranger.asked == {}


@pytest.mark.timeout(4 * WAIT_S)
def test_nothing_is_bricked_over_restarts(place: Place) -> None:
    """All that the voter did is on the disks of the others."""
    place.attack(*REQUESTS)
    for node in place.honest:
        place.quorum.kill(node)
    for node in place.honest:
        place.quorum.start(node)
    place.decides("after-a-restart")
    is_right(place)
    place.node.__exit__(None, None, None)
    place.quorum.start(place.taken)
    place.quorum.wait_serving(place.taken)
    place.decides("after-its-return")
    voters = {voter["id"] for voter in place.quorum.status()["CurrentVoters"]}
    assert voters == set(place.quorum.nodes)
    is_right(place)
