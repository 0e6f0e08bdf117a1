"""Bugs of the core that no search of states is needed for: a transcript that shows the rule does not survive them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tierfetch.tests.sim.planted.quorum_core_bugs import MODEL, TRANSCRIPTS
from tierfetch.tests.sim.planted.registry import shown_by

from ..transcripts import check
from .model.test_model import QUICK, SLOW
from .transcript_commands import Replica

BUGS = shown_by(TRANSCRIPTS)
DIRECTORY = Path(__file__).parents[1] / "testdata" / "raft"
FOUND_BY = {
    "a follower acknowledges before its flush": "Q7-fsync-before-acknowledging",
    "the leader counts what it has written, not flushed": "Q7-fsync-before-acknowledging",
    "a fetch from an observer counts": "Q9-observers-do-not-count",
    "DivergingEpoch is overlooked": "Q5-follower",
    "no check-quorum": "Q8-check-quorum",
    "pre-votes are granted although the leader is heard": "Q8-sockets-closed",
}


@pytest.mark.parametrize("name", FOUND_BY)
async def test_planted_bug_breaks_a_transcript(name: str) -> None:
    path = DIRECTORY / f"{FOUND_BY[name]}.txt"
    with BUGS[name](), pytest.raises(AssertionError):
        await check(path, Replica().run, rewrite=False)


def test_every_planted_bug_of_the_core_is_looked_for() -> None:
    assert set(BUGS) == set(FOUND_BY)
    assert set(shown_by(MODEL)) == set(QUICK) | set(SLOW)
