"""The bounded map."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tierfetch.remote.core import ByteLru


def test_evicts_what_was_used_least_lately() -> None:
    lru: ByteLru[str, int] = ByteLru(10)
    for key, value in (("a", 1), ("b", 2), ("c", 3)):
        lru.add(key, value, 3)
    assert lru.get("a") == 1
    assert lru.peek("b") == 2
    assert lru.make_room(5) == [2, 3]
    assert (lru.get("a"), lru.get("b"), lru.size_bytes) == (1, None, 3)


def test_what_fits_nowhere_is_known_beforehand() -> None:
    assert ByteLru[str, int](10).fits(10)
    assert not ByteLru[str, int](10).fits(11)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 12), st.booleans())))
@settings(max_examples=60, deadline=None)
def test_never_above_its_limit_and_counts_right(steps: list[tuple[str, int, bool]]) -> None:
    lru: ByteLru[str, int] = ByteLru(10)
    model: dict[str, int] = {}
    for key, size, is_added in steps:
        lru.pop(key)
        model.pop(key, None)
        if is_added and lru.fits(size):
            for evicted in lru.make_room(size):
                assert evicted == next(iter(model.values()))
                del model[next(iter(model))]
            lru.add(key, size, size)
            model[key] = size
        assert lru.size_bytes == sum(model.values()) <= 10
        assert len(lru) == len(model)
