"""No garbage collection begins while a test, or a tool that it uses, parses"""

from __future__ import annotations

import ast
import gc
from collections.abc import Callable, Iterator

import pytest

SOURCE = "x = [" + "lambda a: a + 1, " * 200 + "]"


@pytest.fixture
def collections() -> Iterator[list[str]]:
    """Yield the phases of collections; one is due with nearly each new object."""
    seen: list[str] = []

    def note(phase: str, _: dict[str, int]) -> None:
        seen.append(phase)

    before = gc.get_threshold()
    gc.callbacks.append(note)
    gc.set_threshold(10)
    yield seen
    gc.set_threshold(*before)
    gc.callbacks.remove(note)


@pytest.mark.parametrize(("is_enabled", "switch"), [(True, gc.enable), (False, gc.disable)])
def test_parsing_is_not_interrupted_and_leaves_the_collector_as_it_was(
    collections: list[str], is_enabled: bool, switch: Callable[[], None]
) -> None:
    switch()
    try:
        seen_before = len(collections)
        tree = ast.parse(SOURCE)
        assert len(collections) == seen_before
        assert gc.isenabled() is is_enabled
    finally:
        gc.enable()
    assert len(list(ast.walk(tree))) > 200
