"""docs/bootstrap.md and its picture: where each policy begins is what the policies decide."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tierfetch.fetcher.core.bootstrap import AdoptFromTier, BootstrapPolicy, ResumeFetch, Situation, StartAt, Trigger
from tierfetch.fetcher.core.policies import (
    BoundedLocal,
    BoundedLocalConfig,
    EarliestPendingUpload,
    LocalLogStart,
    LogStart,
    TierFirst,
)
from tierfetch.plugin_registry import BOOTSTRAP_POLICY
from tierfetch.tests.fetcher.conversation import Leader, decide
from tierfetch.tests.fetcher.model_log import model_log
from tierfetch.tests.fetcher.model_tier import ledger_of, segment

DOCS = Path(__file__).resolve().parents[2] / "docs"
ROW = re.compile(r"^\| `([a-z-]+)` \| (\d+) \| (\d+) \|", re.MULTILINE)
SEGMENTS = [segment(first, last, (0, first)) for first, last in [(0, 59), (60, 119), (120, 149), (150, 179)]]
POLICIES: list[BootstrapPolicy] = [
    LogStart(),
    LocalLogStart(),
    EarliestPendingUpload(),
    BoundedLocal(BoundedLocalConfig(bytes=1)),
    TierFirst(),
]
EMPTY = Situation(trigger=Trigger.ASSIGNED, log_end_offset=0, is_tiered=True)
REFUSED = Situation(trigger=Trigger.MOVED_TO_TIERED_STORAGE, log_end_offset=0, is_tiered=True)


def begins_at(policy: BootstrapPolicy, local_start: int) -> int:
    """Return the first offset that an empty follower gets from the leader of the page."""
    log = model_log((0, 0), end=200)
    log.local_log_start_offset = local_start
    leader = Leader(log, ledger_of(*SEGMENTS), segments=SEGMENTS)
    decision = decide(policy, EMPTY, leader)
    if isinstance(decision, ResumeFetch):
        if local_start == 0:
            return 0
        decision = decide(policy, REFUSED, leader)
    assert isinstance(decision, AdoptFromTier | StartAt), decision
    return decision.start_offset if isinstance(decision, AdoptFromTier) else decision.offset


def test_the_page_has_every_policy() -> None:
    named = {name for name, _, _ in ROW.findall((DOCS / "bootstrap.md").read_text())}
    assert named == set(BOOTSTRAP_POLICY.built_in) == {policy.name for policy in POLICIES}


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_F1_each_policy_begins_where_the_page_says(policy: BootstrapPolicy) -> None:
    rows = {name: (int(partly), int(whole)) for name, partly, whole in ROW.findall((DOCS / "bootstrap.md").read_text())}
    assert (begins_at(policy, 120), begins_at(policy, 0)) == rows[policy.name]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_the_picture_shows_the_same(policy: BootstrapPolicy) -> None:
    picture = ElementTree.parse(DOCS / "bootstrap.svg").getroot()
    (group,) = [each for each in picture.iter() if each.get("id") == policy.name]
    offset = int(group.attrib["data-offset"])
    assert offset == begins_at(policy, 120)
    _, arrow = group.findall("{*}path")
    assert arrow.attrib["d"].startswith(f"M{round(70 + 4.2 * offset)} "), "the arrow begins at the offset"
