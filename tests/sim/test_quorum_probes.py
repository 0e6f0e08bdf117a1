"""Probes of a quorum at rest, against quorums that do not keep what they promise."""

from __future__ import annotations

import pytest

from tierfetch.sim.machine.world import World
from tierfetch.sim.scenarios.quorum_probes import IDLE_EVENTS_MAX, QuorumProbes

VOTERS = ("a", "b", "c")


class Quorum:
    """Led by "a" in epoch 3; what it does under a probe is up to a test."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.leading: tuple[str, int] | None = ("a", 3)
        self.probes = QuorumProbes(
            world.network,
            world.rng("probes"),
            fetch_timeout_ms=1_000,
            leading=lambda: self.leading,
            is_leader=lambda host: self.leading is not None and self.leading[0] == host,
        )

    def blocked(self) -> set[tuple[str, str]]:
        return {(one, two) for one in VOTERS for two in VOTERS if self.world.network.is_blocked(one, two)}

    def is_busy(self, events: int) -> None:
        for _ in range(events):
            self.probes.on_event("b")

    def becomes(self, leading: tuple[str, int] | None) -> None:
        self.leading = leading


def kinds(probe: str, when_s: float, leading: tuple[str, int] | None, events: int = 0) -> list[str]:
    """What the probe finds if this leads from `when_s` on, with so many events of "b" at its end."""
    with World(1) as world:
        quorum = Quorum(world)

        async def run() -> list[str]:
            world.loop.call_later(when_s, quorum.becomes, leading)
            world.loop.call_later(1.25, lambda: cut.append(quorum.blocked()))
            world.loop.call_later(3.0, quorum.is_busy, events)
            found = await getattr(quorum.probes, probe)(VOTERS)
            assert not quorum.blocked()
            return [anomaly.kind for anomaly in found]

        cut: list[set[tuple[str, str]]] = []
        found = world.run(run(), limit_s=60)
        links = {("a", "b"), ("b", "a"), ("a", "c"), ("c", "a")}
        assert cut[0] == links if probe == "silence" else cut[0] < links
        return found


def test_a_quorum_that_is_not_disturbed() -> None:
    assert not kinds("disturb", 10, None)


@pytest.mark.parametrize("leading", [("a", 4), ("b", 4), None])
def test_another_leader_or_epoch_is_a_disturbance(leading: tuple[str, int] | None) -> None:
    assert kinds("disturb", 1.2, leading) == ["disturbed leader"]


def test_nodes_without_anything_to_do_do_nothing() -> None:
    assert kinds("disturb", 10, None, 3 * IDLE_EVENTS_MAX) == ["busy when idle"]


def test_a_leader_that_nobody_hears_gives_up() -> None:
    assert not kinds("silence", 1.6, ("b", 4))
    assert kinds("silence", 10, None) == ["leads unheard"]
