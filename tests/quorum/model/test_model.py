"""Q14: every state of a small quorum is safe, and the search finds what is planted (`-s` prints how many states)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tierfetch.tests.sim.planted.quorum_core_bugs import MODEL
from tierfetch.tests.sim.planted.registry import shown_by

from .explore import Exploration, explore
from .model import Bounds, initial_world, successors
from .node import forget_all

BUGS = shown_by(MODEL)
NOTHING_LOST = {"crashes": 0, "losses": 0, "appends": 0}


@pytest.fixture(autouse=True)
def _fresh_memory() -> Iterator[None]:
    """What was computed with a bug planted is not true without, and the other way round."""
    forget_all()
    yield
    forget_all()


def explored(bounds: Bounds, capsys: pytest.CaptureFixture[str]) -> Exploration:
    found = explore(bounds)
    with capsys.disabled():
        print(f"\n{bounds}: {found}", end="")  # noqa: T201
    return found


def test_Q14_every_state_of_one_epoch_is_safe(capsys: pytest.CaptureFixture[str]) -> None:
    found = explored(Bounds(epochs=1, entries=1, **NOTHING_LOST), capsys)
    assert found.is_complete, found
    assert found.states > 100


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "bounds",
    [
        pytest.param(
            Bounds(epochs=1, entries=1, crashes=0, losses=1, appends=0, delays_answers=True), id="late-answers"
        ),
        pytest.param(Bounds(epochs=1, entries=2, crashes=1, losses=1, keeps_page_cache=True), id="page-cache"),
    ],
)
def test_Q14_every_state_is_safe(bounds: Bounds, capsys: pytest.CaptureFixture[str]) -> None:
    found = explored(bounds, capsys)
    assert found.is_complete, found
    assert found.committed == bounds.entries, "a quorum that commits nothing is safe for nothing"


@pytest.mark.slow
def test_Q14_worlds_that_differ_in_names_only_do_the_same() -> None:
    bounds = Bounds(epochs=1, entries=1, crashes=1, losses=0, appends=0)
    first = initial_world(bounds)
    futures: dict[object, set[object]] = {}
    known, queue = {first.identity()}, [first]
    while queue:
        world = queue.pop()
        world.met.clear()
        worlds = [after for _, after in successors(bounds, world) if after is not None]
        after = {(each.fingerprint(), each.used) for each in worlds}
        assert futures.setdefault((world.fingerprint(), world.used), after) == after
        news = {(each.identity(), each.used): each for each in worlds}
        queue += [each for key, each in news.items() if key not in known]
        known |= news.keys()
    assert len(known) > 5 * len(futures), "six ways to call three replicas"


@pytest.mark.slow
def test_Q14_what_was_used_hides_nothing() -> None:
    """All worlds, told apart by what they have used: the search with covering comes to every one of them."""
    bounds = Bounds(epochs=1, entries=1, crashes=1, losses=1, appends=0)
    first = initial_world(bounds)
    known, queue = {(first.fingerprint(), first.used)}, [first]
    while queue:
        for _, after in successors(bounds, queue.pop()):
            if after is not None and (key := (after.fingerprint(), after.used)) not in known:
                known.add(key)
                queue.append(after)
    found = explore(bounds)
    assert found.is_complete
    assert found.states < len(known)
    assert len({world for world, _ in known}) <= found.states


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_Q14_the_first_states_with_slow_disks_are_safe() -> None:
    found = explore(Bounds(epochs=1, entries=1, delays_disk=True, **NOTHING_LOST), states_max=30_000)
    assert found.violation is None, found


QUICK = {
    "the vote is not persisted": Bounds(epochs=1, entries=1, crashes=1, losses=0, appends=0),
    "a vote leaves before it is on disk": Bounds(epochs=1, entries=1, crashes=1, losses=0, appends=0, delays_disk=True),
    "votes twice in an epoch": Bounds(epochs=1, entries=1, **NOTHING_LOST),
    "a candidate votes for another candidate of its epoch": Bounds(epochs=1, entries=1, **NOTHING_LOST),
    "votes for an earlier epoch are counted": Bounds(epochs=2, entries=2, **NOTHING_LOST),
    "half of the voters are a majority": Bounds(epochs=1, entries=1, **NOTHING_LOST),
}
SLOW = {
    "a shorter log of the same epoch gets the vote": Bounds(epochs=2, entries=2, crashes=0, losses=0, appends=1),
    "the longer log gets the vote, whatever its epoch": Bounds(epochs=3, entries=3, **NOTHING_LOST),
    "high watermark from an entry of an old epoch": Bounds(epochs=3, entries=2, **NOTHING_LOST),
}


@pytest.mark.parametrize("name", QUICK)
def test_Q14_planted_bug_is_found(name: str) -> None:
    with BUGS[name]():
        found = explore(QUICK[name], states_max=10_000)
    assert found.violation is not None, found


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SLOW)
def test_Q14_deeper_planted_bug_is_found(name: str) -> None:
    with BUGS[name]():
        found = explore(SLOW[name], states_max=60_000)
    assert found.violation is not None, found


@pytest.mark.widest
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "bounds",
    [
        pytest.param(Bounds(epochs=3, entries=3, crashes=1, losses=0, appends=0), id="3-epochs-3-entries-crash"),
        pytest.param(Bounds(epochs=2, entries=2, crashes=1, losses=1, appends=1), id="crash-loss-reordering"),
    ],
)
def test_Q14_every_state_of_the_widest_bounds_is_safe(bounds: Bounds, capsys: pytest.CaptureFixture[str]) -> None:
    test_Q14_every_state_is_safe(bounds, capsys)
