"""Which replica a consumer is sent to, as Kafka's selectors choose it (KIP-392)."""

from __future__ import annotations

import pytest

from tierfetch.broker.core.read_replicas import RackAwareSelector, ReadReplica, select_leader
from tierfetch.plugin_options import PluginConfig

LEADER = ReadReplica(1, "a", 100, 0)
IN_B = ReadReplica(2, "b", 90, 50)


@pytest.mark.parametrize(
    ("rack", "leader", "followers", "chosen"),
    [
        ("a", LEADER, [IN_B, ReadReplica(3, "a", 100, 0)], 1),
        ("b", LEADER, [IN_B], 2),
        ("b", LEADER, [IN_B, ReadReplica(3, "b", 91, 900)], 3),
        ("b", LEADER, [IN_B, ReadReplica(3, "b", 90, 49)], 3),
        ("b", LEADER, [IN_B, ReadReplica(3, "b", 90, 50)], 3),
        ("b", LEADER, [], 1),
        ("c", LEADER, [IN_B], 1),
        ("", LEADER, [IN_B], 1),
        ("b", ReadReplica(1, None, 100, 0), [IN_B, ReadReplica(3, None, 100, 0)], 2),
    ],
)
def test_F11_rack_aware(rack: str, leader: ReadReplica, followers: list[ReadReplica], chosen: int) -> None:
    assert RackAwareSelector(PluginConfig())(rack, leader, followers).broker_id == chosen
    assert select_leader(rack, leader, followers) is leader
