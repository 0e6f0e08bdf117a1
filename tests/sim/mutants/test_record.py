"""The record of a sample: its lines are read back, and found again in sources that have moved on; samples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from .__main__ import arguments
from .equivalent import FILE, parse_marks
from .generate import Mutant, diff_of, mutants_of
from .judging import Court
from .page import page
from .programs import ROOT
from .record import DUE, Side, Verdict, drawn, of_sample, parse_record, placed, record_text

RECORD = Path(__file__).with_name("record.jsonl")
PAGE = ROOT / "docs" / "mutants.md"
PUBLISHED = arguments(["--seed", "2026", "--seeds", "20", "--seeds-each", "8", "--tests-s", "40"])
BEFORE = """
def f(a, b):
    return a < 1 and b < 2

def g(a):
    return a == 2
"""


def mutants(source: str, file: str = "log/a.py") -> dict[str, Mutant]:
    return {each.id: each for each in mutants_of(file, source)}


def judged(source: str, id: str) -> Verdict:
    mutant = mutants(source)[id]
    return Verdict(
        file=mutant.file,
        function=mutant.function,
        line=mutant.line,
        operator=mutant.operator,
        ordinal=mutant.ordinal,
        digest=mutant.digest,
        change=tuple(diff_of(source, mutant)),
        simulator=Side("survived", ran=2, reached_by=2),
        unit_tests=Side("convicted", "tests/log/test_a.py::test_f", reason="assert 1 == 2", ran=1, reached_by=3),
        cpu_s=1.5,
        commit="abc",
        sample=2026,
    )


def found(verdict: Verdict, source: str, file: str = "log/a.py") -> list[Verdict]:
    return placed([verdict], mutants(source, file), lambda mutant: diff_of(source, mutant))


SECOND = judged(BEFORE, "log/a.py::f::boundary::1")


def test_a_verdict_is_read_back() -> None:
    assert parse_record(SECOND.to_json()) == [SECOND]
    assert '"convicted_by": ["unit tests"]' in SECOND.to_json()


def test_of_several_verdicts_on_a_mutant_the_last_holds() -> None:
    later = replace(SECOND, simulator=Side("convicted", "seed 9", "lost write"))
    other = judged(BEFORE, "log/a.py::g::compare::0")
    assert parse_record("".join(each.to_json() + "\n" for each in (SECOND, other, later))) == [later, other]
    assert parse_record(record_text([other, later])) == [later, other]


def test_a_verdict_holds_where_only_what_is_around_its_function_has_changed() -> None:
    after = "def new():\n    return 1 < 2\n\n" + BEFORE.replace("a == 2", "a == 3")
    assert found(SECOND, after) == [replace(SECOND, line=SECOND.line + 3)]


def test_a_verdict_holds_in_a_file_that_was_renamed() -> None:
    assert found(SECOND, BEFORE, "log/core/b.py") == [replace(SECOND, file="log/core/b.py")]


def test_a_mutant_is_found_by_its_change_and_judged_again_where_its_function_has_changed() -> None:
    after = BEFORE.replace(
        "    return a < 1 and b < 2", "    if b < 0:\n        return True\n    return a < 1 and b < 2"
    )
    (now,) = found(SECOND, after)
    assert now.is_due
    assert not now.is_reached
    assert now.ordinal == 2
    assert now.digest != SECOND.digest
    assert parse_record(now.to_json()) == [now]


def test_a_side_that_was_not_asked_is_due() -> None:
    half = replace(SECOND, simulator=Side("convicted", "seed 9", "lost write"), unit_tests=DUE)
    assert half.is_due
    assert found(half, BEFORE) == [half]
    assert parse_record(half.to_json()) == [half]


def test_only_sides_that_are_due_are_asked() -> None:
    mutant = mutants(BEFORE)[SECOND.id]
    first = Court({mutant.file: BEFORE}, {}, [], [], asks=("simulator",)).judge(mutant)
    assert (first.simulator, first.unit_tests) == (Side("unreached"), DUE)
    known = {mutant.id: replace(first, simulator=SECOND.simulator)}
    second = Court({mutant.file: BEFORE}, {}, [], [], known=known).judge(mutant)
    assert (second.simulator, second.unit_tests) == (SECOND.simulator, Side("unreached"))


def test_a_mutant_that_can_no_longer_be_made_is_dropped() -> None:
    assert found(SECOND, BEFORE.replace("b < 2", "b")) == []
    assert found(SECOND, BEFORE.replace("def f", "def h").replace("b < 2", "b < 3")) == []


def test_a_sample_is_drawn_by_its_seed_and_a_larger_one_begins_with_it() -> None:
    source = "def f(a, b):\n    return " + " or ".join(f"a < {number}" for number in range(30)) + "\n"
    every = mutants(source).values()
    small, large = drawn(every, 10, 1), drawn(every, 20, 1)
    assert large[:10] == small
    assert drawn(every, 10, 2) != small
    without = [each for each in every if each != small[0]]
    assert drawn(without, 9, 1) == small[1:]


def test_what_is_recorded_stays_in_a_sample() -> None:
    source = "def f(a, b):\n    return " + " or ".join(f"a < {number}" for number in range(30)) + "\n"
    every = mutants(source).values()
    last = drawn(every, 90, 1)[-1]
    assert drawn(every, 10, 1, {last.id}) == [last, *drawn(every, 9, 1)]


def test_a_mutant_stays_in_the_sample_that_drew_it_first() -> None:
    new = replace(SECOND, sample=0)
    assert of_sample([new], {new.id}, 7) == [replace(new, sample=7)]
    assert of_sample([SECOND], {SECOND.id}, 7) == [SECOND], "else a look with another seed empties the published sample"
    assert of_sample([new], set(), 7) == [new]


def test_a_mutant_that_is_judged_again_stays_in_its_sample() -> None:
    mutant = mutants(BEFORE)[SECOND.id]
    again = Court({mutant.file: BEFORE}, {}, [], [], known={mutant.id: replace(SECOND, simulator=DUE)}).judge(mutant)
    assert (again.sample, again.simulator, again.unit_tests) == (2026, Side("unreached"), SECOND.unit_tests)


@pytest.mark.parametrize("side", [DUE, Side("unreached")])
def test_what_is_due_or_unreached_is_not_reached(side: Side) -> None:
    assert not replace(SECOND, simulator=side, unit_tests=side).is_reached


def test_the_published_record_is_sorted_and_its_page_says_what_it_does() -> None:
    verdicts = parse_record(RECORD.read_text())
    assert record_text(verdicts) == RECORD.read_text()
    assert {each.sample for each in verdicts} <= {0, PUBLISHED.seed}
    assert PAGE.read_text() == page(verdicts, PUBLISHED, parse_marks(FILE.read_text()))
