"""What every `ReplicaSelector` must do (`broker/core/read_replicas.py`). Ships with the wheel.

from tierfetch.testing import ReplicaSelectorConformance

class TestMySelector(ReplicaSelectorConformance):
    @pytest.fixture
    def selector(self):
        return MySelector(MySelector.Config(...))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest

from tierfetch.broker.core import ReadReplica, ReplicaSelector

LEADER: Final = ReadReplica(1, "a", 100, 0)
FOLLOWERS: Final = {
    "no follower": [],
    "one in another rack": [ReadReplica(2, "b", 90, 50)],
    "several": [ReadReplica(2, "b", 90, 50), ReadReplica(3, "b", 91, 900), ReadReplica(4, "a", 100, 0)],
    "without a rack": [ReadReplica(2, None, 100, 0)],
}


@pytest.mark.parametrize("rack", ["", "a", "b", "nowhere"])
@pytest.mark.parametrize("followers", FOLLOWERS.values(), ids=FOLLOWERS)
class ReplicaSelectorConformance:
    """Give it a `selector` fixture."""

    @pytest.fixture
    def selector(self) -> ReplicaSelector:
        """Return the selector to check."""
        raise NotImplementedError("give the suite a fixture `selector`")

    def test_returns_what_it_was_offered(
        self, selector: ReplicaSelector, rack: str, followers: Sequence[ReadReplica]
    ) -> None:
        """The leader, or one of the followers that qualify: any other does not have the records."""
        chosen = selector(rack, LEADER, followers)
        assert chosen is LEADER or any(chosen is follower for follower in followers)

    def test_is_steady(self, selector: ReplicaSelector, rack: str, followers: Sequence[ReadReplica]) -> None:
        """A consumer keeps its replica while nothing changes: a selector that alternates moves it at every fetch."""
        assert selector(rack, LEADER, followers) is selector(rack, LEADER, followers)
