"""Voters added and removed while clusters of cores live, and die."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tierfetch.protocol.errors import ErrorCode
from tierfetch.quorum.core.config import RaftConfig
from tierfetch.quorum.core.events import RecoveredState, Resign
from tierfetch.quorum.core.membership import ADD_TIMEOUT_MAX_MS
from tierfetch.quorum.core.messages import AddVoterRequest, RemoveVoterRequest, UpgradeKRaftVersionRequest, VoteResponse
from tierfetch.quorum.core.probation import on_epoch_reported
from tierfetch.quorum.core.replica import Replica
from tierfetch.quorum.core.state import Endpoint, LeaderAndEpoch, RaftState

from .cluster import CLUSTER_ID, Cluster, InvariantBroken, Node, endpoints_of, key_of, voter_of, voters_of
from .test_core_cluster import converge, crash, cut, isolate_leader, mend, start_all


def change(cluster: Cluster, request: AddVoterRequest | RemoveVoterRequest | UpgradeKRaftVersionRequest) -> ErrorCode:
    """Asked of the leader, the answer awaited."""
    leader = cluster.leader()
    assert leader is not None
    token = cluster.request(leader.id, request)
    assert cluster.run_until(lambda: token in cluster.answers), request
    return cluster.answers[token].error


def add(node_id: int, incarnation: int = 0) -> AddVoterRequest:
    return AddVoterRequest(cluster_id=CLUSTER_ID, voter=voter_of(node_id, incarnation), timeout_ms=5_000)


def remove(node_id: int, incarnation: int = 0) -> RemoveVoterRequest:
    return RemoveVoterRequest(cluster_id=CLUSTER_ID, voter=voter_of(node_id, incarnation).key)


def ready(cluster: Cluster) -> None:
    """A leader that has committed a record of its own."""
    leading = lambda: (leader := cluster.leader()) and leader.high_watermark > leader.disk.start.offset  # noqa: E731
    assert cluster.run_until(lambda: bool(leading()))
    cluster.run_until(for_ms=1_000)


def test_Q15_a_lone_voter_grows_to_three_and_survives_its_first() -> None:
    cluster = Cluster([1], observers=(2, 3), seed=1)
    ready(cluster)
    assert change(cluster, add(2)) is ErrorCode.none
    assert change(cluster, add(3)) is ErrorCode.none
    cluster.append(cluster.nodes[1], b"kept")
    cluster.run_until(for_ms=1_000)
    cluster.crash(1)
    assert cluster.run_until(lambda: cluster.leader() is not None, for_ms=10_000)
    assert cluster.values() == [b"kept"]


def test_Q15_a_leader_that_listens_elsewhere_says_so_with_the_first_record_of_its_epoch() -> None:
    """It follows nobody to whom it could report: its own records must say so, and once only."""
    cluster = Cluster([1], observers=(2,), seed=1)
    ready(cluster)
    moved = (Endpoint("CONTROLLER", "node1", 9999),)
    listens_at = lambda node: node.core.status.voters.voters.by_id[1].endpoints  # noqa: E731
    offsets = []
    for _ in range(2):
        cluster.crash(1)
        cluster.nodes[1].config = replace(cluster.nodes[1].config, endpoints=moved)
        cluster.start(1)
        ready(cluster)
        assert cluster.run_until(lambda: all(listens_at(node) == moved for node in cluster.nodes.values()))
        offsets.append(cluster.leader().core.status.voters.offset)
    assert offsets[0] == offsets[1] > 0
    assert change(cluster, add(2)) is ErrorCode.none


def test_Q15_a_removed_leader_hands_over() -> None:
    cluster = Cluster([1, 2, 3], seed=2)
    ready(cluster)
    first = cluster.leader()
    assert change(cluster, remove(first.id)) is ErrorCode.none
    assert cluster.run_until(lambda: cluster.leader() not in (None, first), for_ms=10_000)
    cluster.run_until(for_ms=5_000)
    assert first.core.state is RaftState.FOLLOWER
    assert not first.core.status.is_voter
    assert first.high_watermark == cluster.leader().high_watermark


def test_Q15_a_removed_voter_that_comes_back_raises_no_epoch() -> None:
    cluster = Cluster([1, 2, 3], seed=3)
    ready(cluster)
    gone = next(node for node in cluster.nodes.values() if node is not cluster.leader())
    cluster.crash(gone.id)
    assert change(cluster, remove(gone.id)) is ErrorCode.none
    epoch = cluster.leader().core.epoch
    cluster.start(gone.id)
    cluster.run_until(for_ms=20_000)
    assert cluster.leader().core.epoch == epoch
    assert not gone.core.status.is_voter


def test_Q15_a_wiped_voter_is_another_replica() -> None:
    """It has to be removed and added with its new directory; until then its fetches count for nothing."""
    cluster = Cluster([1, 2, 3], seed=4)
    ready(cluster)
    wiped = next(node for node in cluster.nodes.values() if node is not cluster.leader())
    cluster.crash(wiped.id)
    cluster.wipe(wiped.id, 1)
    cluster.start(wiped.id)
    cluster.run_until(for_ms=3_000)
    assert not wiped.core.status.is_voter
    assert change(cluster, remove(wiped.id)) is ErrorCode.none
    assert change(cluster, add(wiped.id, 1)) is ErrorCode.none
    cluster.run_until(for_ms=1_000)
    assert wiped.core.status.is_voter


def test_Q15_a_wiped_voter_with_auto_join_takes_its_own_place() -> None:
    cluster = Cluster([1, 2, 3], seed=5, config=lambda config: replace(config, auto_join=True))
    ready(cluster)
    wiped = next(node for node in cluster.nodes.values() if node is not cluster.leader())
    cluster.append(cluster.leader(), b"kept")
    cluster.crash(wiped.id)
    cluster.wipe(wiped.id, 1)
    cluster.start(wiped.id)
    assert cluster.run_until(lambda: wiped.core.status.is_voter, for_ms=30_000)
    assert len(cluster.leader().core.voters_at_end.voters) == 3
    assert cluster.run_until(lambda: wiped.high_watermark == cluster.leader().high_watermark)


def with_a_replaced_directory() -> tuple[Cluster, Node, Node, Node]:
    """The leader and another voter, and in place of the third the directory that it had before: not thrown away, up to
    date, and the first to stand. All are stopped."""
    cluster = Cluster([1, 2, 3], seed=6)
    ready(cluster)
    leader = cluster.leader()
    third, second = [node for node in cluster.nodes.values() if node is not leader]
    before = third.config
    cluster.crash(third.id)
    assert change(cluster, remove(third.id)) is ErrorCode.none
    cluster.wipe(third.id, 1)
    cluster.start(third.id)
    assert change(cluster, add(third.id, 1)) is ErrorCode.none
    cluster.run_until(for_ms=1_000)
    for node_id in cluster.nodes:
        cluster.crash(node_id)
    third.key, third.config = before.key, replace(before, fetch_timeout_ms=500)
    return cluster, leader, second, third


def test_Q15_the_vote_of_a_replaced_directory_is_not_that_of_the_one_in_its_place() -> None:
    cluster, _, second, replaced = with_a_replaced_directory()
    cluster.start(second.id)
    cluster.start(replaced.id)
    assert not cluster.run_until(lambda: cluster.leader() is not None, for_ms=20_000), "one voter of three"


def test_Q15_what_a_replaced_directory_has_does_not_count_for_the_one_in_its_place() -> None:
    cluster, leader, second, replaced = with_a_replaced_directory()
    for node_id in cluster.nodes:
        cluster.start(node_id)
    assert cluster.run_until(lambda: replaced.core.state is RaftState.LEADER, for_ms=20_000)
    cluster.cut(replaced.id, leader.id)
    cluster.run_until(for_ms=500)
    assert second.core.log_end_offset == replaced.core.log_end_offset
    assert replaced.core.status.high_watermark == 0, "one voter of three"


@pytest.mark.parametrize("seed", range(5))
def test_Q15_static_voters_go_into_the_log_and_come_and_go_from_then_on(seed: int) -> None:
    cluster = Cluster([1, 2, 3], seed=seed, kraft_version=0)
    ready(cluster)
    cluster.append(cluster.leader(), b"before")
    leader = cluster.leader()
    assert change(cluster, UpgradeKRaftVersionRequest(epoch=leader.core.epoch, level=1)) is ErrorCode.none
    assert cluster.leader() is leader, "nobody was out of touch"
    assert {node.key for node in leader.core.voters_at_end.voters} == {node.key for node in cluster.nodes.values()}
    gone = next(node for node in cluster.nodes.values() if node is not leader)
    cluster.crash(gone.id)
    cluster.wipe(gone.id, 1)
    cluster.start(gone.id)
    cluster.run_until(for_ms=3_000)
    assert not gone.core.status.is_voter
    assert change(cluster, remove(gone.id)) is ErrorCode.none
    assert change(cluster, add(gone.id, 1)) is ErrorCode.none
    cluster.append(cluster.leader(), b"after")
    cluster.run_until(for_ms=1_000)
    for node_id in cluster.nodes:
        cluster.crash(node_id)
        cluster.start(node_id)
    converge(cluster)
    assert cluster.values() == [b"before", b"after", b"last"]
    assert all(node.core.voters_at_end.kraft_version == 1 for node in cluster.nodes.values())


def test_Q15_an_upgrade_that_is_not_committed_is_not_said_to_be_done() -> None:
    """Whoever asks again would take the static voters out of the configuration."""
    cluster = Cluster([1, 2, 3], seed=1, kraft_version=0)
    ready(cluster)
    leader = cluster.leader()
    for node_id in cluster.nodes:
        if node_id != leader.id:
            cluster.cut(leader.id, node_id)
    request = UpgradeKRaftVersionRequest(epoch=leader.core.epoch, level=1)
    first, again = (cluster.request(leader.id, request) for _ in range(2))
    assert leader.core.voters_at_end.kraft_version == 1
    cluster.run_until(lambda: first in cluster.answers)
    assert cluster.answers[first].error is not ErrorCode.none
    assert cluster.answers[again].error is ErrorCode.request_timed_out
    assert cluster.run_until(lambda: cluster.leader() not in (None, leader))
    assert cluster.leader().core.voters_at_end.kraft_version == 0


def committed_on_two_of_three(seed: int, kraft_version: int = 0) -> tuple[Cluster, Node, Node, Node]:
    """The leader and one voter have a record that the third has not; then the leader and that voter stop."""
    cluster = Cluster([1, 2, 3], seed=seed, kraft_version=kraft_version)
    ready(cluster)
    leader = cluster.leader()
    second, third = [node for node in cluster.nodes.values() if node is not leader]
    cluster.cut(leader.id, third.id)
    cluster.cut(second.id, third.id)
    token = cluster.append(leader, b"kept")
    assert cluster.run_until(lambda: token not in cluster.unanswered)
    cluster.crash(leader.id)
    cluster.crash(second.id)
    cluster.heal()
    return cluster, leader, second, third


FORMATTED_AGAIN = pytest.mark.parametrize(
    ("kraft_version", "incarnation"), [(0, 1), (1, 0)], ids=["static", "with the same directory id"]
)


@FORMATTED_AGAIN
@pytest.mark.parametrize("seed", range(10))
def test_Q15_a_wiped_voter_helps_to_elect_nobody_without_what_it_had_acknowledged(
    seed: int, kraft_version: int, incarnation: int
) -> None:
    cluster, leader, second, third = committed_on_two_of_three(seed, kraft_version)
    cluster.wipe(second.id, incarnation)
    cluster.start(second.id)
    cluster.run_until(for_ms=30_000)
    assert third.core.state is not RaftState.LEADER
    assert second.core.state is not RaftState.LEADER
    cluster.start(leader.id)
    assert cluster.run_until(lambda: cluster.leader() is not None)
    cluster.append(cluster.leader(), b"more")
    converge(cluster)
    assert cluster.values() == [b"kept", b"more", b"last"]
    assert not second.disk.is_unproven, "it has all, and votes again"


@FORMATTED_AGAIN
def test_Q15_without_its_mark_a_wiped_voter_loses_what_was_committed(kraft_version: int, incarnation: int) -> None:
    cluster, _, second, third = committed_on_two_of_three(1, kraft_version)
    cluster.wipe(second.id, incarnation)
    second.disk = replace(second.disk, is_unproven=False)
    cluster.start(second.id)
    assert cluster.run_until(lambda: cluster.leader() is third, for_ms=30_000)
    with pytest.raises(InvariantBroken, match="committed"):
        cluster.run_until(for_ms=10_000)


def test_Q15_a_wiped_static_voter_that_crashes_half_way_is_no_more_to_be_relied_on() -> None:
    cluster, leader, second, third = committed_on_two_of_three(3)
    cluster.wipe(second.id, 1)
    cluster.start(leader.id)
    cluster.cut(leader.id, third.id)
    cluster.cut(second.id, third.id)
    cluster.start(second.id)
    cluster.run_until(lambda: second.disk.end_offset > 0, for_ms=30_000)
    cluster.crash(leader.id)
    cluster.crash(second.id)
    if second.disk.is_unproven:
        cluster.heal()
        cluster.start(second.id)
        cluster.run_until(for_ms=30_000)
        assert cluster.leader() is None


def with_a_vote_on_its_way() -> tuple[Cluster, Node, Node, Node]:
    """The leader of five static voters, another one that stands in the next epoch and has one vote beside its own, and
    the voter that gave it. Only the candidate is cut off."""
    cluster = Cluster([1, 2, 3, 4, 5], seed=1, kraft_version=0)
    ready(cluster)
    leader = cluster.leader()
    giver, candidate, third, fourth = [node for node in cluster.nodes.values() if node is not leader]
    candidate.config = replace(candidate.config, election_timeout_ms=20_000, fetch_timeout_ms=500)
    for one in (giver, candidate, third):
        cluster.crash(one.id)
        for other in (leader, fourth):
            cluster.cut(one.id, other.id)
    for one in (giver, candidate, third):
        cluster.start(one.id)
    assert cluster.run_until(lambda: candidate.core.state is RaftState.CANDIDATE, for_ms=5_000)
    cluster.cut(candidate.id, third.id)
    assert cluster.run_until(lambda: giver.id in candidate.core.status.granting_voters, for_ms=500)
    cluster.heal()
    for other in (leader, giver, third, fourth):
        cluster.cut(candidate.id, other.id)
    return cluster, leader, candidate, giver


def test_Q15_a_wiped_static_voter_gives_no_second_vote_in_an_epoch() -> None:
    """Three of the four others have told it an epoch without a candidate; the fourth is the candidate."""
    cluster, leader, candidate, giver = with_a_vote_on_its_way()
    cluster.wipe(giver.id, 1)
    cluster.start(giver.id)
    cluster.run_until(for_ms=1_500)
    assert leader.core.state is RaftState.LEADER
    assert leader.core.epoch < candidate.core.epoch
    for other in cluster.nodes.values():
        if other not in (leader, candidate):
            cluster.cut(leader.id, other.id)
    cluster.cuts -= {(candidate.id, leader.id), (leader.id, candidate.id)}
    cluster.run_until(for_ms=15_000)
    converge(cluster)
    assert cluster.values() == [b"last"]
    assert not giver.disk.is_unproven, "it has all, and votes again"


def wipe_one(seed: int, kraft_version: int, incarnation: int, *, is_marked: bool = True) -> None:
    """Voters under faults; one disk is replaced, once everybody has something that is committed."""
    cluster = Cluster([1, 2, 3], seed=seed, kraft_version=kraft_version)
    ready(cluster)
    chance = cluster.random
    wiped_in = chance.randint(1, 15)
    for number in range(20):
        cluster.run_until(for_ms=chance.randint(1, 900))
        chance.choice([crash, start_all, cut, mend, mend, isolate_leader])(
            cluster, chance.choice(sorted(cluster.nodes))
        )
        leader = cluster.leader()
        if leader is not None:
            cluster.append(leader, f"{number}".encode())
        if number == wiped_in:
            node = cluster.nodes[chance.choice(sorted(cluster.nodes))]
            cluster.crash(node.id)
            cluster.wipe(node.id, incarnation)
            node.disk = replace(node.disk, is_unproven=is_marked)
            cluster.start(node.id)
    converge(cluster)
    assert not [node.fatal for node in cluster.nodes.values() if node.fatal]
    cluster.check_logs_match()
    cluster.check_acknowledged()


@FORMATTED_AGAIN
@pytest.mark.parametrize("seed", range(10))
def test_Q15_invariants_hold_while_a_voters_disk_is_replaced(seed: int, kraft_version: int, incarnation: int) -> None:
    wipe_one(seed, kraft_version, incarnation)


def without_marks(seeds: range, kraft_version: int, incarnation: int) -> None:
    for seed in seeds:
        wipe_one(seed, kraft_version, incarnation, is_marked=False)


@pytest.mark.parametrize(
    ("seeds", "kraft_version", "incarnation"), [(range(20), 0, 1), (range(240, 260), 1, 0)], ids=["static", "dynamic"]
)
def test_Q15_the_mark_is_what_holds_them(seeds: range, kraft_version: int, incarnation: int) -> None:
    with pytest.raises(AssertionError):
        without_marks(seeds, kraft_version, incarnation)


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
@FORMATTED_AGAIN
def test_Q15_invariants_hold_while_a_voters_disk_is_replaced_for_many_seeds(
    kraft_version: int, incarnation: int
) -> None:
    for seed in range(100, 300):
        wipe_one(seed, kraft_version, incarnation)


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_Q1_a_new_cluster_of_voters_with_marks_elects_a_leader_with_two_of_three(kraft_version: int) -> None:
    cluster = Cluster([1, 2, 3], seed=9, kraft_version=kraft_version)
    for node_id in cluster.nodes:
        cluster.wipe(node_id, 0)
    for node_id in (1, 2):
        cluster.start(node_id)
    ready(cluster)
    cluster.append(cluster.leader(), b"first")
    cluster.start(3)
    converge(cluster)
    assert cluster.values() == [b"first", b"last"]
    assert not any(node.disk.is_unproven for node in cluster.nodes.values())


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_Q1_a_new_cluster_that_loses_its_power_at_any_time_elects_a_leader_afterwards(kraft_version: int) -> None:
    """Marks of voters whose logs hold something by then would make them wait for each other."""
    for crash_ms in range(1_000, 1_600, 20):
        cluster = Cluster([1, 2, 3], seed=crash_ms, kraft_version=kraft_version)
        for node_id in cluster.nodes:
            cluster.wipe(node_id, 0)
            cluster.start(node_id)
        cluster.run_until(for_ms=crash_ms)
        for node_id in cluster.nodes:
            cluster.crash(node_id)
        for node_id in cluster.nodes:
            cluster.start(node_id)
        ready(cluster)


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_Q1_a_lone_voter_has_nobody_to_prove_itself_to(kraft_version: int) -> None:
    cluster = Cluster([1], kraft_version=kraft_version)
    ready(cluster)
    node = cluster.nodes[1]
    cluster.crash(1)
    node.disk = replace(node.disk, is_unproven=True)
    cluster.start(1)
    ready(cluster)
    assert not node.disk.is_unproven


def test_Q15_a_new_replica_is_added_while_a_voter_is_down() -> None:
    """It began with nothing, but was no voter before: it need not hear all of them."""
    cluster = Cluster([1, 2, 3], seed=4, observers=(4,))
    cluster.crash(4)
    cluster.wipe(4, 1)
    ready(cluster)
    down = next(node for node in cluster.nodes.values() if node not in (cluster.leader(), cluster.nodes[4]))
    cluster.crash(down.id)
    cluster.start(4)
    assert change(cluster, add(4, 1)) is ErrorCode.none
    cluster.append(cluster.leader(), b"needs three of four")
    assert cluster.run_until(lambda: not cluster.unanswered, for_ms=2_000)
    assert not cluster.nodes[4].disk.is_unproven


def test_Q15_a_new_voter_that_never_catches_up_holds_up_other_changes_for_a_time_only() -> None:
    """However long its request says that it may take."""
    cluster = Cluster([1, 2, 3], seed=4)
    ready(cluster)
    token = cluster.request(cluster.leader().id, replace(add(7), timeout_ms=2**31 - 1))
    assert not cluster.run_until(lambda: token in cluster.answers, for_ms=ADD_TIMEOUT_MAX_MS - 60_000)
    assert cluster.run_until(lambda: token in cluster.answers, for_ms=120_000)
    assert cluster.answers[token].error is ErrorCode.request_timed_out


def test_Q11_a_static_voter_whose_name_leads_elsewhere_counts_again_when_it_is_right() -> None:
    """The other voters find each other in its place, and take it for a second node of its id."""
    cluster = Cluster([1, 2, 3], seed=2, kraft_version=0)
    cluster.names = {(1, 3): 2, (2, 3): 1}
    lost = cluster.nodes[3]
    ready(cluster)
    leader = cluster.leader()
    assert leader is not lost
    for number in range(10):
        cluster.append(leader, f"{number}".encode())
        cluster.run_until(for_ms=2_000)
    assert not cluster.unanswered
    assert cluster.leader() is leader, "what is refused raises no epoch"
    assert lost.fatal is None
    assert lost.core.state is RaftState.FOLLOWER
    cluster.names.clear()
    cluster.crash(next(node.id for node in cluster.nodes.values() if node not in (leader, lost)))
    cluster.append(leader, b"by two of three")
    assert cluster.run_until(lambda: not cluster.unanswered, for_ms=5_000)
    converge(cluster)


def test_Q15_a_change_of_a_leader_that_resigns_is_answered_with_how_it_may_end() -> None:
    """Its record may be in another voter's log: the operator has to look before asking again."""
    cluster = Cluster([1, 2, 3], seed=4)
    ready(cluster)
    leader = cluster.leader()
    assert leader is not None
    assert leader.core is not None
    token = cluster.request(leader.id, remove(next(each for each in (1, 2, 3) if each != leader.id)))
    cluster.step(leader, Resign(leader.core.epoch))
    assert cluster.run_until(lambda: token in cluster.answers, for_ms=5_000)
    answer = cluster.answers[token]
    assert (answer.error, answer.message) == (
        ErrorCode.not_leader_or_follower,
        "leadership was lost before the change was committed; it may yet be",
    )


def test_Q15_an_observer_that_missed_the_replacement_of_all_voters_finds_their_leader() -> None:
    """None of those that it knows is there any more; one bootstrap server is."""
    servers = (endpoints_of(1)[0], endpoints_of(5)[0])
    cluster = Cluster(
        [1, 2, 3], seed=6, observers=(4, 5, 6, 9), config=lambda config: replace(config, bootstrap_servers=servers)
    )
    ready(cluster)
    cluster.crash(9)
    for node_id in (4, 5, 6):
        assert change(cluster, add(node_id)) is ErrorCode.none
    for node_id in (1, 2, 3):
        assert change(cluster, remove(node_id)) is ErrorCode.none
        assert cluster.run_until(lambda: cluster.leader() is not None)
        ready(cluster)
        cluster.crash(node_id)
    cluster.append(cluster.leader(), b"after")
    cluster.start(9)
    assert cluster.run_until(lambda: cluster.nodes[9].high_watermark >= cluster.leader().core.log_end_offset)


def test_Q15_a_voter_in_doubt_takes_no_refusal_for_an_epoch() -> None:
    """Also if its leader's static voters do not hold it: only who knows of no voters takes that for an answer."""
    config = RaftConfig(key=key_of(1), cluster_id=CLUSTER_ID, endpoints=endpoints_of(1))
    replica = Replica(config, RecoveredState(voters=(voters_of([1, 2, 3], 0),), is_unproven=True), Random(1))
    replica.leader_id = 2
    for peer_id, error in ((2, ErrorCode.inconsistent_voter_set), (3, ErrorCode.inconsistent_cluster_id)):
        on_epoch_reported(replica, peer_id, VoteResponse(error=error, leader=LeaderAndEpoch(None, -1)))
    assert replica.probation is not None
    assert not replica.probation.is_excluded
    assert not replica.probation.epochs


def shuffle(seed: int, rounds: int) -> None:
    cluster = Cluster([1, 2, 3], seed=seed, observers=(4, 5))
    chance = cluster.random
    for number in range(rounds):
        cluster.run_until(for_ms=chance.randint(1, 900))
        fault = chance.choice([crash, start_all, start_all, cut, mend, mend, isolate_leader])
        fault(cluster, chance.choice(sorted(cluster.nodes)))
        leader = cluster.leader()
        if leader is None:
            continue
        cluster.append(leader, f"{number}".encode())
        node_id = chance.choice(sorted(cluster.nodes))
        is_voter = node_id in leader.core.voters_at_end.voters.by_id
        cluster.request(leader.id, remove(node_id) if is_voter else add(node_id))
    converge(cluster)
    assert not [node.fatal for node in cluster.nodes.values() if node.fatal]
    cluster.check_logs_match()
    cluster.check_acknowledged()


@pytest.mark.parametrize("seed", range(10))
def test_Q15_invariants_hold_while_voters_change(seed: int) -> None:
    shuffle(seed, 20)


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_Q15_invariants_hold_while_voters_change_for_many_seeds() -> None:
    for seed in range(100, 200):
        shuffle(seed, 30)
