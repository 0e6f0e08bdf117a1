"""Who can be reached, and what a look shows"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.controller.core.fast_failover import ProbeOutcome
from tierfetch.controller.image.image import MetadataImage
from tierfetch.controller.image.registrations import BrokerRegistration
from tierfetch.controller.reachability import AddressKey, Attempt, News, Reachability, Sight

OWN, OTHER = UUID(int=4711), UUID(int=4712)
BROKER = BrokerRegistration(1, 7, OWN, fenced=False)
V4, V6, OUTSIDE = ("127.0.0.1", 9092), ("::1", 9092), ("192.0.2.1", 9092)
NOW_S = 1000.0
"""Later than any pause."""
TAKEN, REFUSED, NO_WAY, SILENT = Attempt.TAKEN, Attempt.REFUSED, Attempt.NO_WAY, Attempt.SILENT


def image_of(*brokers: BrokerRegistration) -> MetadataImage:
    image = MetadataImage()
    image.brokers = {broker.broker_id: broker for broker in brokers}
    return image


def reaching(sight: Sight) -> Reachability:
    table = Reachability()
    table.note(BROKER, sight, 0.0)
    return table


@pytest.mark.parametrize(
    ("attempts", "answers", "outcome"),
    [
        ({V4: REFUSED}, {}, ProbeOutcome.REFUSED),
        ({V6: REFUSED, V4: REFUSED}, {}, ProbeOutcome.REFUSED),
        ({V6: NO_WAY, V4: REFUSED}, {}, ProbeOutcome.REFUSED),
        ({OUTSIDE: SILENT, V4: REFUSED}, {}, ProbeOutcome.NO_PROOF),
        ({V6: TAKEN, V4: REFUSED}, {}, ProbeOutcome.NO_PROOF),
        ({V6: TAKEN, V4: REFUSED}, {V6: OTHER}, ProbeOutcome.NO_PROOF),
        ({V6: REFUSED}, {}, ProbeOutcome.NO_PROOF),
        ({V4: NO_WAY}, {}, ProbeOutcome.NO_PROOF),
        ({V4: SILENT}, {}, ProbeOutcome.NO_PROOF),
        ({V4: TAKEN}, {}, ProbeOutcome.NO_PROOF),
        ({V4: TAKEN}, {V4: OWN}, ProbeOutcome.SAME_INCARNATION),
        ({V6: TAKEN}, {V6: OWN}, ProbeOutcome.SAME_INCARNATION),
        ({V4: TAKEN}, {V4: OTHER}, ProbeOutcome.OTHER_INCARNATION),
        ({}, {}, ProbeOutcome.NO_PROOF),
    ],
)
def test_C1_what_a_look_shows_of_a_broker_that_was_reached(
    attempts: dict[AddressKey, Attempt], answers: dict[AddressKey, UUID], outcome: ProbeOutcome
) -> None:
    table = reaching(Sight({V4: TAKEN}, {V4: OWN}))
    assert table.outcome(BROKER, Sight(attempts, answers)) is outcome


def test_C1_what_was_seen_has_words_of_its_own() -> None:
    words = {outcome: outcome.value for outcome in ProbeOutcome}
    assert words[ProbeOutcome.OTHER_INCARNATION] == "another incarnation answers at its address"
    assert len(set(words.values())) == len(ProbeOutcome)


addresses = st.sampled_from([V4, V6, OUTSIDE])
sights = st.dictionaries(addresses, st.sampled_from(Attempt)).flatmap(
    lambda attempts: st.dictionaries(
        st.sampled_from(sorted(key for key, attempt in attempts.items() if attempt is TAKEN) or [V4]),
        st.sampled_from([OWN, OTHER]),
        max_size=len([attempt for attempt in attempts.values() if attempt is TAKEN]),
    ).map(lambda answers: Sight(attempts, answers))
)


@given(st.lists(sights), sights)
def test_C1_a_broker_that_never_took_a_connect_is_never_found_gone(before: list[Sight], last: Sight) -> None:
    table = Reachability()
    own: set[AddressKey] = set()
    for sight in before:
        table.note(BROKER, sight, 0.0)
        own |= {key for key, attempt in sight.attempts.items() if attempt is TAKEN} - {
            key for key, incarnation in sight.incarnations.items() if incarnation == OTHER
        }
    outcome = table.outcome(BROKER, last)
    if outcome is ProbeOutcome.REFUSED:
        assert own & last.attempts.keys()
        assert {REFUSED, NO_WAY}.issuperset(last.attempts.values())
    if outcome is ProbeOutcome.OTHER_INCARNATION:
        assert own & last.incarnations.keys()


def test_C1_who_serves_is_due_until_it_is_reached_and_again_with_each_registration() -> None:
    table = Reachability()
    assert table.due(image_of(replace(BROKER, fenced=True)), NOW_S) == []
    assert table.due(image_of(BROKER), NOW_S) == [BROKER]
    table.note(BROKER, Sight({V4: REFUSED}), 0.0)
    table.note(BROKER, Sight({V4: TAKEN}, {V4: OTHER}), 0.0)
    assert table.due(image_of(BROKER), NOW_S) == [BROKER]
    table.note(BROKER, Sight({V4: TAKEN}), 0.0)
    assert table.due(image_of(BROKER), NOW_S) == []
    again = replace(BROKER, epoch=8, incarnation_id=OTHER)
    assert table.outcome(again, Sight({V4: REFUSED})) is ProbeOutcome.NO_PROOF
    assert table.due(image_of(again), NOW_S) == [again]
    assert table.outcome(BROKER, Sight({V4: REFUSED})) is ProbeOutcome.NO_PROOF, "that registration is over"


def test_C1_who_lives_although_it_refuses_is_not_reached_any_longer() -> None:
    table = reaching(Sight({V4: TAKEN}))
    assert table.outcome(BROKER, Sight({V4: REFUSED})) is ProbeOutcome.REFUSED
    table.is_alive(BROKER.broker_id)
    assert table.outcome(BROKER, Sight({V4: REFUSED})) is ProbeOutcome.NO_PROOF
    assert table.due(image_of(BROKER), NOW_S) == [BROKER]


def test_C1_a_broker_that_is_never_reached_is_tried_less_and_less_often() -> None:
    table, image, now_s, pauses = Reachability(), image_of(BROKER), 0.0, []
    news = []
    assert table.pause_s(image_of(), now_s) is None
    for _ in range(9):
        assert table.due(image, now_s) == [BROKER]
        news.append(table.note(BROKER, Sight({V4: REFUSED}), now_s))
        assert table.due(image, now_s) == []
        pause_s = table.pause_s(image, now_s)
        assert pause_s is not None
        pauses.append(pause_s)
        now_s += pause_s
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert news == [None, None, None, News.MISSED, None, None, None, None, None], "once"
    again = replace(BROKER, epoch=8)
    assert table.due(image_of(again), now_s - 1) == [again], "a new registration does not wait"
    assert table.note(BROKER, Sight({V4: TAKEN}), now_s) is News.REACHED
    assert table.pause_s(image, now_s) is None
