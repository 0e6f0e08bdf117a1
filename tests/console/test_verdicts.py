"""What a page begins with, and the colours and lengths of a prediction's bars."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tierfetch.console.core.replicas import Disk, OnDisk
from tierfetch.console.core.state import Overview, Prediction
from tierfetch.console.core.verdicts import cluster_verdict, replacement_verdict
from tierfetch.console.formats import SHARED_STYLE, durations_scale
from tierfetch.pages import LOOKS, policy_look
from tierfetch.tests.console.readers import broker, overview, part

SOUND = replace(overview(), brokers=(broker(1), broker(2)))
OWN = {"policy": "log-start", "all in sync after": "20 min", "never in sync": "0"}
FASTEST = {"policy": "tier-first", "all in sync after": "12.0 s", "never in sync": "0"}


def said(found: Overview, disk: Disk | None = None) -> tuple[str, str]:
    verdict = cluster_verdict(found, found.partitions, {1: disk or {}})
    return verdict.tone, verdict.text


def test_the_worst_is_said() -> None:
    hurt, leaderless = part("t", 0, isr=(1,)), replace(part("t", 1), leader=-1)
    failed: Disk = {("t", 0): OnDisk(size_bytes=1, is_out_of_service=True)}
    failing: Disk = {("t", 0): OnDisk(size_bytes=1, tier_error="copy: away")}
    fenced = replace(SOUND, brokers=(broker(1), broker(2, is_alive=False), broker(3, is_alive=False)))
    assert said(SOUND) == ("good", "Every replica of 3 partitions is in sync.")
    assert said(SOUND, failing) == ("warn", "The last work in the tier failed for 1 replica.")
    assert said(replace(SOUND, partitions=(hurt,))) == ("warn", "1 partition with a replica outside the ISR.")
    assert said(replace(fenced, partitions=(hurt,)), failing)[1].startswith("Brokers 2, 3 are fenced; 1 partition with")
    one = replace(SOUND, brokers=(broker(1), broker(3, is_alive=False)))
    assert said(one) == ("warn", "Broker 3 is fenced; no partition has a replica outside the ISR.")
    assert said(replace(SOUND, partitions=(hurt,)), failed) == ("bad", "1 replica that cannot serve.")
    assert said(replace(SOUND, partitions=(hurt, leaderless)), failed) == ("bad", "1 partition without a leader.")
    silent = replace(SOUND, brokers=(broker(1), replace(broker(2), is_unreachable=True)))
    assert said(silent, failing) == (
        "warn",
        "Broker 2 does not answer, though the cluster has it as alive: its replicas may be out of sync.",
    )
    assert said(replace(silent, partitions=(hurt,)))[1] == "1 partition with a replica outside the ISR."
    assert said(Overview(taken_at_s=0))[0] == "plain"


@pytest.mark.parametrize(
    ("prediction", "tone", "text"),
    [
        (
            Prediction(broker=1, outcomes=(OWN, FASTEST), seconds={"log-start": 1200, "tier-first": 12}),
            "good",
            "Broker 1: all replicas are in sync after 20 min under log-start; 12.0 s under tier-first.",
        ),
        (
            Prediction(broker=1, outcomes=(FASTEST, OWN), seconds={"log-start": 1200, "tier-first": 12}),
            "good",
            "Broker 1: all replicas are in sync after 12.0 s under tier-first.",
        ),
        (
            Prediction(broker=1, outcomes=(OWN | {"never in sync": "4"},)),
            "bad",
            "Broker 1: 4 of its replicas are never in sync under log-start.",
        ),
        (Prediction(broker=1, missing={"cores": "?"}), "warn", "Broker 1: the model needs more figures."),
    ],
)
def test_a_prediction_begins_with_what_it_comes_to(prediction: Prediction, tone: str, text: str) -> None:
    verdict = replacement_verdict(prediction)
    assert verdict is not None
    assert (verdict.tone, verdict.text) == (tone, text)


def test_durations_that_span_decades_are_drawn_on_a_logarithmic_axis() -> None:
    scale = durations_scale(Prediction(broker=1, seconds={"log-start": 1200, "tier-first": 12}))
    assert scale is not None
    assert scale.is_log
    assert scale.shares["log-start"] == 1
    assert 0.1 < scale.shares["tier-first"] < 0.5
    linear = durations_scale(Prediction(broker=1, seconds={"log-start": 20, "tier-first": 10, "none": 0}))
    assert linear is not None
    assert (linear.is_log, linear.shares) == (False, {"log-start": 1, "tier-first": 0.5, "none": 0})
    assert durations_scale(Prediction(broker=1, seconds={"log-start": 20})) is None


def test_a_policy_has_the_colour_that_it_has_on_every_page() -> None:
    scale = durations_scale(Prediction(broker=1, seconds={"log-start": 20, "tier-first": 10}))
    assert scale is not None
    number = scale.looks["tier-first"]
    assert LOOKS[number] is policy_look("tier-first")
    assert f".look-{number} {{ fill: {policy_look('tier-first').color}; }}" in SHARED_STYLE
