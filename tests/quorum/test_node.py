"""Whole replicas over loopback and on real files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tierfetch.quorum.errors import NotLeaderError
from tierfetch.tests.quorum.nodes import Quorum


async def test_Q6_an_append_is_committed_on_every_voter(tmp_path: Path) -> None:
    async with Quorum(tmp_path) as quorum:
        await quorum.start()
        leader = await quorum.leader()
        epoch = leader.node.leader_and_epoch.epoch
        last = await leader.node.append_and_commit(epoch, [b"a", b"b"])
        assert leader.node.high_watermark > last
        await quorum.until(lambda: all(item.state.records == [b"a", b"b"] for item in quorum.voters))
        follower = next(item for item in quorum.voters if item is not leader)
        with pytest.raises(NotLeaderError):
            await follower.node.append(epoch, [b"x"])
