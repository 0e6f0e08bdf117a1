"""Fast failover: fence on proof, never on a mere disconnect, never many at once, never before most are heard."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tierfetch.controller.core.fast_failover import PROBES_MAX, ProbeOutcome, Verdict
from tierfetch.protocol.errors import ErrorCode

from .harness import CONFIG, Harness, directory

REFUSED, NO_PROOF = ProbeOutcome.REFUSED, ProbeOutcome.NO_PROOF
OTHER = ProbeOutcome.OTHER_INCARNATION
DUPLICATE = ErrorCode.duplicate_broker_registration


def cluster_of(count: int) -> Harness:
    harness = Harness()
    harness.start(*range(1, count + 1))
    harness.now_ms += CONFIG.session_timeout_ms // 2
    harness.beat(*range(1, count + 1))
    harness.now_ms += CONFIG.session_timeout_ms // 2
    harness.beat(*range(1, count + 1))
    harness.run_timers()
    return harness


def lose(harness: Harness, broker_id: int) -> Verdict:
    """The connection of its heartbeats ends."""
    return harness.core.connection_lost(broker_id, harness.epochs.get(broker_id, -1))


def probe(harness: Harness, broker_id: int, *outcomes: ProbeOutcome) -> Verdict:
    verdict, epoch = Verdict.PROBE, harness.image.brokers[broker_id].epoch
    for outcome in outcomes:
        assert verdict is Verdict.PROBE
        verdict, result = harness.core.probed(broker_id, epoch, outcome, harness.now_ms)
        harness.take(result)
    return verdict


def test_a_dead_process_is_fenced_after_two_refused_connects() -> None:
    harness = cluster_of(3)
    harness.create("t", [1, 2, 3])
    assert lose(harness, 1) is Verdict.PROBE
    assert probe(harness, 1, REFUSED) is Verdict.PROBE
    assert not harness.image.brokers[1].fenced
    assert probe(harness, 1, REFUSED) is Verdict.FENCE
    assert (harness.partition("t").leader, harness.partition("t").isr) == (2, (2, 3))
    assert harness.register(1)["error_code"] is ErrorCode.none, "and may register again at once"


def test_another_incarnation_that_answers_is_proof() -> None:
    harness = cluster_of(3)
    lose(harness, 1)
    assert probe(harness, 1, OTHER) is Verdict.PROBE, "a live one gets the time of a pause for its heartbeat"
    assert probe(harness, 1, OTHER) is Verdict.FENCE


def test_a_newcomer_under_a_live_id_needs_proof() -> None:
    """One of two, so that nobody is fenced for it. Two live processes can advertise one address."""
    harness = cluster_of(2)
    harness.create("t", [1, 2])
    assert harness.register(1)["error_code"] is DUPLICATE
    assert harness.core.challenged(1) is Verdict.WAIT, "its connection lives"
    lose(harness, 1)
    assert harness.register(1)["error_code"] is DUPLICATE
    assert probe(harness, 1, *[NO_PROOF] * PROBES_MAX) is Verdict.WAIT
    assert harness.register(1)["error_code"] is DUPLICATE
    assert harness.core.challenged(1) is Verdict.PROBE, "and has it looked for again"
    assert harness.core.challenged(1) is Verdict.WAIT, "it is being looked for"
    assert probe(harness, 1, REFUSED, REFUSED) is Verdict.WAIT
    assert harness.core.challenged(1) is Verdict.WAIT, "it was found"
    elsewhere = [{"name": "PLAINTEXT", "host": "host9", "port": 9092, "security_protocol": 0}]
    assert harness.register(1, listeners=elsewhere)["error_code"] is DUPLICATE
    assert harness.register(1)["error_code"] is ErrorCode.none
    assert (harness.partition("t").leader, harness.partition("t").isr) == (2, (2,))


def test_a_heartbeat_after_the_proof_refuses_the_newcomer() -> None:
    harness = cluster_of(2)
    lose(harness, 1)
    assert probe(harness, 1, REFUSED, REFUSED) is Verdict.WAIT
    harness.beat(1)
    assert harness.register(1)["error_code"] is DUPLICATE


@pytest.mark.parametrize("brokers", [2, 3], ids=["proven", "proven and fenced"])
def test_a_newcomer_without_the_directories_empties_no_isr_before_the_session_is_over(brokers: int) -> None:
    harness = cluster_of(brokers)
    harness.create("only", [1])
    lose(harness, 1)
    probe(harness, 1, REFUSED, REFUSED)
    assert harness.image.brokers[1].fenced is (brokers == 3)
    assert harness.register(1, log_dirs=[directory(1, 7)])["error_code"] is DUPLICATE
    assert harness.partition("only").isr == (1,)
    others = range(2, brokers + 1)
    harness.now_ms += CONFIG.session_timeout_ms - 1
    harness.beat(*others)
    assert harness.register(1, log_dirs=[directory(1, 7)])["error_code"] is DUPLICATE
    harness.sleep(1)
    harness.beat(*others)
    assert harness.register(1, log_dirs=[directory(1, 7)])["error_code"] is ErrorCode.none
    assert harness.partition("only").isr == ()


def test_a_newcomer_without_the_directories_is_registered_at_once_where_others_are_in_sync() -> None:
    harness = cluster_of(3)
    harness.create("t", [1, 2, 3])
    lose(harness, 1)
    probe(harness, 1, REFUSED, REFUSED)
    assert harness.register(1, log_dirs=[directory(1, 7)])["error_code"] is ErrorCode.none


def test_a_stranger_neither_switches_it_on_nor_off() -> None:
    """Its heartbeat has another epoch: nobody is heard by it, and no connection of that epoch counts."""
    harness = cluster_of(3)
    epoch = harness.image.brokers[1].epoch
    assert not harness.core.knows(1, epoch + 1)
    assert harness.core.knows(1, epoch)
    assert harness.core.connection_lost(1, epoch + 1) is Verdict.WAIT
    assert lose(harness, 1) is Verdict.PROBE
    assert not harness.core.is_in_contact(1)
    assert harness.heartbeat(1, broker_epoch=epoch + 1)["error_code"] is ErrorCode.stale_broker_epoch
    assert not harness.core.is_in_contact(1)
    assert probe(harness, 1, REFUSED, REFUSED) is Verdict.FENCE


def test_another_incarnation_is_no_proof_where_the_first_lives() -> None:
    harness = cluster_of(3)
    lose(harness, 1)
    harness.beat(1)
    assert harness.register(1)["error_code"] is DUPLICATE
    assert not harness.image.brokers[1].fenced


def test_another_incarnation_is_no_proof_where_the_first_has_answered_at_its_listener() -> None:
    """A second node with the first one's advertised listener, which only says that it is there."""
    harness = cluster_of(3)
    lose(harness, 1)
    assert probe(harness, 1, ProbeOutcome.SAME_INCARNATION) is Verdict.WAIT
    assert harness.register(1)["error_code"] is DUPLICATE
    assert not harness.image.brokers[1].fenced


@pytest.mark.parametrize("brokers", [1, 2, 3])
def test_who_was_started_again_need_not_wait_whoever_else_is_gone(brokers: int) -> None:
    """One of two, or all of them at once: none is fenced for it, each speaks for itself."""
    harness = cluster_of(brokers)
    for broker_id in range(1, brokers + 1):
        lose(harness, broker_id)
        probe(harness, broker_id, REFUSED, REFUSED)
    for broker_id in range(1, brokers + 1):
        harness.start(broker_id)


def test_who_is_refused_takes_nobodys_place() -> None:
    """A broker of another cluster with the same id and listener, pointed here by mistake."""
    harness = cluster_of(2)
    lose(harness, 1)
    probe(harness, 1, REFUSED, REFUSED)
    assert harness.register(1, cluster_id="another")["error_code"] is ErrorCode.inconsistent_cluster_id
    harness.run_timers()
    assert not harness.image.brokers[1].fenced


def test_who_this_controller_has_not_heard_is_succeeded_by_nobody() -> None:
    """A connection that ends says nothing of one whose heartbeats came to the controller before."""
    harness = cluster_of(2)
    harness.failover()
    lose(harness, 1)
    assert harness.register(1)["error_code"] is DUPLICATE
    harness.now_ms += CONFIG.session_timeout_ms - 1
    harness.beat(2)
    assert harness.register(1)["error_code"] is DUPLICATE
    harness.beat(1)
    lose(harness, 1)
    probe(harness, 1, REFUSED, REFUSED)
    harness.start(1)


def test_a_live_broker_is_never_fenced_for_a_disconnect() -> None:
    harness = cluster_of(3)
    lose(harness, 1)
    assert probe(harness, 1, REFUSED, ProbeOutcome.SAME_INCARNATION) is Verdict.WAIT
    assert probe(harness, 1, REFUSED) is Verdict.WAIT, "nobody asked for it any more"
    assert not harness.image.brokers[1].fenced


def test_silence_and_unreachable_hosts_prove_nothing() -> None:
    harness = cluster_of(3)
    lose(harness, 1)
    assert probe(harness, 1, *[NO_PROOF] * PROBES_MAX) is Verdict.WAIT
    assert not harness.image.brokers[1].fenced
    lose(harness, 1)
    assert probe(harness, 1, REFUSED, NO_PROOF, REFUSED) is Verdict.PROBE, "not twice in a row"


def test_a_heartbeat_ends_the_suspicion() -> None:
    harness = cluster_of(3)
    lose(harness, 1)
    probe(harness, 1, REFUSED)
    harness.heartbeat(1)
    assert probe(harness, 1, REFUSED) is Verdict.WAIT


def look(harness: Harness, *outcomes: ProbeOutcome) -> dict[int, Verdict]:
    """A new controller's look for those whom it does not hear, and what became of each."""
    silent = harness.core.look_for_silent(harness.now_ms)
    assert silent is not None
    return {broker_id: probe(harness, broker_id, *outcomes) for broker_id in silent}


def test_who_died_with_the_controller_is_fenced_once_the_next_one_hears_most() -> None:
    harness = cluster_of(3)
    harness.create("t", [1, 2, 3])
    harness.failover()
    assert look(harness) == {}, "nobody is heard yet"
    harness.beat(2)
    assert look(harness) == {}, "one of three: it may be this network that is broken"
    harness.beat(3)
    assert look(harness, REFUSED) == {1: Verdict.PROBE}, "what the controller before has seen does not count"
    assert look(harness) == {}, "it is being looked for"
    assert probe(harness, 1, REFUSED) is Verdict.FENCE
    assert (harness.partition("t").leader, harness.partition("t").isr) == (2, (2, 3))


@pytest.mark.parametrize("outcome", [NO_PROOF, ProbeOutcome.SAME_INCARNATION])
def test_who_is_silent_and_not_refused_keeps_its_session(outcome: ProbeOutcome) -> None:
    harness = cluster_of(3)
    harness.failover()
    harness.beat(2, 3)
    probes = PROBES_MAX if outcome is NO_PROOF else 1
    for _ in range(2):
        assert look(harness, *[outcome] * probes) == {1: Verdict.WAIT}, "and it is looked for again"
    harness.beat(1)
    assert look(harness) == {}


def test_a_new_controller_looks_until_the_sessions_of_the_silent_are_over() -> None:
    harness = cluster_of(3)
    harness.failover()
    harness.beat(2, 3)
    harness.now_ms += CONFIG.session_timeout_ms - 1
    assert harness.core.look_for_silent(harness.now_ms) == [1]
    assert harness.core.look_for_silent(harness.now_ms + 1) is None
    harness.core.resign()
    assert harness.core.look_for_silent(harness.now_ms) is None


def test_refusals_while_most_are_not_heard_are_no_proof() -> None:
    """A controller whose network is broken may be refused by all."""
    harness = cluster_of(3)
    harness.failover()
    harness.beat(1)
    assert lose(harness, 1) is Verdict.PROBE
    assert probe(harness, 1, REFUSED, REFUSED) is Verdict.WAIT
    harness.beat(2, 3)
    assert look(harness, REFUSED, REFUSED) == {1: Verdict.FENCE}, "heard before, and not since"


def test_two_controllers_one_after_another_fence_a_minority_together() -> None:
    harness = cluster_of(5)
    for broker_id in (1, 2):
        lose(harness, broker_id)
        assert probe(harness, broker_id, REFUSED, REFUSED) is Verdict.FENCE
    harness.failover()
    harness.beat(4, 5)
    assert look(harness) == {}
    harness.beat(3)
    lose(harness, 3)
    assert probe(harness, 3, REFUSED, REFUSED) is Verdict.WAIT


def test_after_this_process_stood_still_most_must_be_heard_anew() -> None:
    harness = cluster_of(3)
    lose(harness, 1)
    harness.core.on_pause(harness.now_ms)
    assert probe(harness, 1, ProbeOutcome.OTHER_INCARNATION) is Verdict.WAIT
    assert lose(harness, 1) is Verdict.WAIT
    assert harness.register(1)["error_code"] is DUPLICATE
    harness.beat(2, 3)
    assert look(harness, REFUSED, REFUSED) == {1: Verdict.FENCE}


@pytest.mark.parametrize(("brokers", "fenced"), [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (7, 3)])
def test_never_more_than_a_minority_at_once(brokers: int, fenced: int) -> None:
    harness = cluster_of(brokers)
    verdicts = []
    for broker_id in range(1, brokers + 1):
        lose(harness, broker_id)
        verdicts.append(probe(harness, broker_id, REFUSED, REFUSED))
    assert verdicts == [Verdict.FENCE] * fenced + [Verdict.WAIT] * (brokers - fenced)


def test_the_limit_counts_within_one_session_timeout() -> None:
    harness = cluster_of(4)
    lose(harness, 1)
    assert probe(harness, 1, REFUSED, REFUSED) is Verdict.FENCE
    lose(harness, 2)
    assert probe(harness, 2, REFUSED, REFUSED) is Verdict.WAIT
    harness.now_ms += CONFIG.session_timeout_ms
    lose(harness, 2)
    assert probe(harness, 2, REFUSED, REFUSED) is Verdict.FENCE


def test_it_can_be_switched_off() -> None:
    harness = Harness(replace(CONFIG, fast_failover=False))
    harness.start(1, 2, 3)
    harness.now_ms += CONFIG.session_timeout_ms
    assert lose(harness, 1) is Verdict.WAIT
    harness.failover()
    harness.beat(2, 3)
    assert harness.core.look_for_silent(harness.now_ms) is None


def test_brokers_that_are_fenced_unknown_or_registered_anew_are_left_alone() -> None:
    harness = cluster_of(3)
    assert lose(harness, 9) is Verdict.WAIT
    lose(harness, 1)
    harness.register(1, incarnation_id=harness.image.brokers[1].incarnation_id)
    assert probe(harness, 1, ProbeOutcome.OTHER_INCARNATION) is Verdict.WAIT
    harness.heartbeat(2, want_fence=True)
    assert lose(harness, 2) is Verdict.WAIT


def test_a_probe_for_a_registration_that_is_over_proves_nothing_against_the_next() -> None:
    """The new incarnation answers who looks for the old one, and its own connection was cut just then."""
    harness = cluster_of(3)
    before = harness.image.brokers[1].epoch
    assert lose(harness, 1) is Verdict.PROBE
    assert probe(harness, 1, REFUSED, REFUSED) is Verdict.FENCE
    harness.start(1)
    harness.sleep(CONFIG.session_timeout_ms // 2)
    harness.beat(1, 2, 3)
    harness.sleep(CONFIG.session_timeout_ms // 2)
    harness.beat(1, 2, 3)
    assert lose(harness, 1) is Verdict.PROBE
    for outcome in (ProbeOutcome.OTHER_INCARNATION, REFUSED, REFUSED):
        verdict, result = harness.core.probed(1, before, outcome, harness.now_ms)
        assert (verdict, result.records) == (Verdict.WAIT, [])
    assert probe(harness, 1, REFUSED, REFUSED) is Verdict.FENCE, "who looks for it is still heard"
