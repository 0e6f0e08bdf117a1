"""What is recorded of a seed or a test holds for later sources while the functions that it reached are the same."""

from __future__ import annotations

from .coverage import Held, Reach, Unit, group_of_tests, text_digest

FILE = "log/a.py"
BEFORE = """
def f(a):
    if a:
        return 1
    return 2

def g(a):
    return a
"""
UNIT = Unit(
    "as it was",
    {FILE: text_digest(BEFORE)},
    [("test_f", 1.0, {FILE: f"{1 << 3 | 1 << 4:x}"}), ("test_of_something_else", 2.0, {})],
    {FILE: f"{1 << 3 | 1 << 4:x}"},
)


def held(source: str | None) -> Held:
    return Held({text_digest(BEFORE): BEFORE}, {} if source is None else {FILE: source})


def test_it_holds_for_the_same_sources() -> None:
    assert held(BEFORE).holds(UNIT, "as it was")
    assert list(held(BEFORE).reaches(UNIT)) == [
        Reach("test_f", 1.0, {FILE: 1 << 3 | 1 << 4}),
        Reach("test_of_something_else", 2.0, {}),
    ]


def test_it_holds_where_other_functions_have_changed_and_lines_have_moved() -> None:
    after = '"""A module."""\n\ndef new():\n    return 0\n' + BEFORE.replace("return a\n", "return -a\n")
    assert held(after).holds(UNIT, "as it was")
    first, _ = held(after).reaches(UNIT)
    assert first.lines == {FILE: 1 << 7 | 1 << 8}


def test_it_is_recorded_again_when_what_it_reached_has_changed_or_is_gone() -> None:
    assert not held(BEFORE.replace("return 1", "return 3")).holds(UNIT, "as it was")
    assert not held(BEFORE.replace("def f", "def h")).holds(UNIT, "as it was")
    assert not held(None).holds(UNIT, "as it was")


def test_it_is_recorded_again_when_what_it_stands_on_has_changed_and_when_it_is_new() -> None:
    assert not held(BEFORE).holds(UNIT, "as it is")
    assert not held(BEFORE).holds(None, "as it was")


def test_the_units_of_a_folder_are_its_modules() -> None:
    units = group_of_tests("tests/rlm").units
    assert "tests/rlm/test_runs.py" in units
    assert "tests/rlm/brokers.py" not in units
    assert len(set(units.values())) == len(units)
