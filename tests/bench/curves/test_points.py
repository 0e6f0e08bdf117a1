"""Points are measured once, a run can be continued, and a bend is where costs rise"""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.bench.curves.bends import BEND, bend, is_before, reading
from tierfetch.bench.curves.command import append_line, measured, read_lines
from tierfetch.bench.curves.partitions import BATCH_RECORDS_MAX, batches
from tierfetch.bench.curves.points import (
    AXES,
    BadLineError,
    Line,
    Point,
    Settings,
    curves,
    is_of,
    line_of,
    missing,
    planned,
)
from tierfetch.bench.curves.report import cells, results_of
from tierfetch.bench.systems import System
from tierfetch.bench.workload import PER_TOPIC, topics_of

SETTINGS = Settings(100, 1_000)


def line(
    system: str = "tierfetch",
    count: int = 1,
    number: int = 0,
    *,
    axis: str = "partitions",
    commit: str = "abc",
    failure: str | None = None,
    **figures: float,
) -> Line:
    return Line(Point(axis, count, system, number), SETTINGS, commit, "2 cores", 1.5, 7, figures, failure)


@given(st.lists(st.integers(1, 100), min_size=1), st.integers(1, 4))
def test_systems_take_turns_and_each_point_is_planned_once(counts: list[int], rounds: int) -> None:
    points = list(planned(AXES, counts, ["ours", "kafka"], rounds))
    assert len(points) == len(set(points)) == len(set(counts)) * 2 * 2 * rounds
    for first, second in zip(points[::2], points[1::2], strict=True):
        assert (first.axis, first.count, first.round) == (second.axis, second.count, second.round)
        assert first.system == ("ours", "kafka")[first.round % 2]


@given(st.integers(0, 16))
def test_a_run_is_continued_where_it_was_interrupted(done: int) -> None:
    points = list(planned(AXES, [1, 10, 100, 1000], ["tierfetch", "kafka"], 1))
    lines = [Line(point, SETTINGS, "abc", "", 0.0, 0) for point in points[:done]]
    assert missing(points, lines) == points[done:]


def test_a_point_of_another_commit_or_other_settings_is_measured_again() -> None:
    assert is_of(line(), SETTINGS, "abc")
    assert not is_of(line(), SETTINGS, "def")
    assert is_of(line("kafka"), SETTINGS, "def")
    assert not is_of(line("kafka"), Settings(200, 1_000), "abc")


def test_a_line_is_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "curves.jsonl"
    written = [line(a=1.0), line("kafka", 10, 1, failure="out of memory: \n no heap")]
    for one in written:
        append_line(path, one)
    assert read_lines(path) == written


def test_a_line_that_was_cut_off_is_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "curves.jsonl"
    append_line(path, line(a=1.0))
    with path.open("a") as file:
        file.write(line(count=10).text()[:-5])
    assert read_lines(path) == [line(a=1.0)]
    append_line(path, line(count=100))
    assert read_lines(path) == [line(a=1.0), line(count=100)]


def test_a_first_line_that_was_cut_off_leaves_none(tmp_path: Path) -> None:
    path = tmp_path / "curves.jsonl"
    path.write_text(line().text()[:-5])
    assert read_lines(path) == []
    append_line(path, line())
    assert read_lines(path) == [line()]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"point": {}}', line().text()[:-1], line().text()[:-1] + ', "x": 1}']
)
def test_a_foreign_line_is_an_error(text: str) -> None:
    with pytest.raises(BadLineError, match="not a point of a curve"):
        line_of(text)


def test_a_point_that_fails_is_a_line_with_what_was_found_before(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(system: System, base: Path, count: int, settings: Settings, figures: dict[str, float]) -> None:
        figures["created, s"] = float(count)
        raise TimeoutError("the ISRs of 5 partitions\nwere awaited")

    monkeypatch.setattr("tierfetch.bench.curves.command.MEASURES", {"partitions": measure})
    unused = System("tierfetch", lambda *_: pytest.fail("not run"), lambda *_: None)
    found = measured(Point("partitions", 5, "tierfetch"), unused, SETTINGS)
    assert found.figures == {"created, s": 5.0}
    assert found.failure == "TimeoutError: the ISRs of 5 partitions were awaited"


def test_a_curve_is_the_median_of_the_rounds_and_shows_what_gave_nothing() -> None:
    lines = [line(count=1, number=number, a=value) for number, value in enumerate((3.0, 1.0, 9.0))]
    lines += [line(count=10, failure="too many"), line("kafka", 1, a=5.0), line(count=1, axis="clients", b=2.0)]
    found = curves(lines, "partitions")
    assert set(found) == {"a"}
    assert found["a"]["kafka"] == {1: 5.0}
    assert found["a"]["tierfetch"][1] == 3.0
    assert math.isnan(found["a"]["tierfetch"][10])
    assert cells(found["a"]["tierfetch"], [1, 10, 100]) == ["3", "-", ""]
    assert results_of(lines).loads == [1.5] * 6


@pytest.mark.parametrize(
    ("quantity", "values", "expected"),
    [
        ("x, s", {1: 1.0, 10: 1.9, 100: 2.0}, None),
        ("x, s", {1: 2.0, 10: 1.0, 100: 2.1}, 100),
        ("x, s", {1: 1.0, 10: 3.0, 100: 9.0}, 10),
        ("x, MB/s", {1: 100.0, 10: 300.0, 100: 149.0}, 100),
        ("x, MB/s", {1: 100.0, 10: 51.0, 100: 1_000.0}, None),
        ("requests a second", {1: 100.0, 10: 49.0}, 10),
        ("x, s", {1: 1.0, 10: math.nan}, 10),
        ("x, MB/s", {1: 1.0, 10: math.nan, 100: 1.0}, 10),
        ("x, s", {1: math.nan, 10: 1.0}, None),
    ],
)
def test_a_curve_bends_where_its_cost_first_rises(
    quantity: str, values: dict[int, float], expected: int | None
) -> None:
    assert bend(quantity, values) == expected


@given(st.dictionaries(st.integers(1, 10_000), st.integers(1, 1_000_000), min_size=1), st.sampled_from([2, 4, 1024]))
def test_a_bend_does_not_depend_on_the_unit(values: dict[int, int], factor: int) -> None:
    found = bend("x, s", values)
    assert found == bend("x, ms", {count: value * factor for count, value in values.items()})
    assert found is None or values[found] > BEND * min(value for count, value in values.items() if count < found)


FLAT, BENT_AT_10, BENT_AT_100 = {1: 1.0, 10: 1.0, 100: 1.0}, {1: 1.0, 10: 5.0, 100: 5.0}, {1: 1.0, 10: 1.0, 100: 5.0}


@pytest.mark.parametrize(
    ("ours", "other", "expected"),
    [
        (FLAT, BENT_AT_10, False),
        (FLAT, {}, False),
        (BENT_AT_100, BENT_AT_10, False),
        (BENT_AT_10, BENT_AT_10, False),
        (BENT_AT_10, BENT_AT_100, True),
        (BENT_AT_10, FLAT, True),
        (BENT_AT_100, {1: 1.0, 10: 1.0}, None),
    ],
)
def test_whether_a_curve_bends_before_another_one(
    ours: dict[int, float], other: dict[int, float], expected: bool | None
) -> None:
    assert is_before("x, s", ours, other) is expected


def test_a_reading_names_both_bends_and_the_ratio_at_the_largest_common_count() -> None:
    assert reading("x, s", FLAT, None) == "flat"
    said = reading("x, s", BENT_AT_10, {1: 1.0, 10: 2.0})
    assert said == "bends at 10; Kafka's flat up to 10: BEFORE Kafka's; at 10: 2.50 of its cost"
    assert reading("x, MB/s", FLAT, FLAT) == "flat; Kafka's flat up to 100; at 100: 1.00 of its cost"
    assert "not known" in reading("x, s", BENT_AT_100, {1: 1.0})


@given(st.integers(1, 12_000))
def test_topics_have_all_partitions_and_none_too_many(count: int) -> None:
    found = topics_of("curve", count)
    assert sum(found.values()) == count
    assert all(1 <= size <= PER_TOPIC for size in found.values())


@given(st.integers(1, 1_500), st.integers(0, 20_000))
def test_all_records_are_given_and_partitions_take_turns(count: int, records: int) -> None:
    given_ = list(batches(count, records))
    assert sum(size for _, size in given_) == records
    assert all(1 <= size <= BATCH_RECORDS_MAX for _, size in given_)
    assert len({target for target, _ in given_}) == min(count, len(given_))
