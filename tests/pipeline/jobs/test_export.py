"""An export that is cut short at every step, run again, and run while the tier grows: each offset once."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem

from tierfetch.pipeline.access.options import parse
from tierfetch.pipeline.core.decode import decode
from tierfetch.pipeline.jobs.export_files import FileLimits, write_files
from tierfetch.pipeline.jobs.export_log import ExportError
from tierfetch.pipeline.jobs.export_place import Directory, Place, Url, open_place
from tierfetch.pipeline.jobs.exporting import Export, ExportedPart, ExportReport, ExportTask, export_all
from tierfetch.pipeline.planning.table import LostSplit
from tierfetch.pipeline.planning.tier_splits import TierError
from tierfetch.tests import samples

COLUMNS = ("offset", "timestamp", "value")


class Crash(Exception):
    """The process ended here."""


class CrashingPlace:
    """Ends the process at the n-th change of the place, before or after it took effect."""

    def __init__(self, place: Place, nth: int = 0, *, after: bool = False) -> None:
        self.place, self._nth, self._after = place, nth, after
        self.changes = 0

    def _change(self, *, done: bool) -> None:
        if not done:
            self.changes += 1
        if self.changes == self._nth and done == self._after:
            raise Crash

    def paths(self) -> list[str]:
        return self.place.paths()

    def read(self, path: str) -> bytes:
        return self.place.read(path)

    def size(self, path: str) -> int | None:
        return self.place.size(path)

    @contextmanager
    def write(self, path: str) -> Iterator[BinaryIO]:
        self._change(done=False)
        with self.place.write(path) as file:
            yield file
        self._change(done=True)

    def create(self, path: str, data: bytes) -> bool:
        self._change(done=False)
        created = self.place.create(path, data)
        self._change(done=True)
        return created

    def rename(self, path: str, to: str) -> None:
        self._change(done=False)
        self.place.rename(path, to)
        self._change(done=True)

    def remove(self, path: str) -> None:
        self._change(done=False)
        self.place.remove(path)
        self._change(done=True)


def rows_of(task: ExportTask) -> Iterator[pa.RecordBatch]:
    storage = task.options.open_storage()
    for planned in task.splits:
        split = planned.split
        data = asyncio.run(storage.fetch_log_segment(split.segment, split.start, split.end))
        for columns in decode(memoryview(data), COLUMNS, split.selection):
            number = pa.array([planned.partition.partition] * len(columns["offset"]), pa.int32())
            yield pa.RecordBatch.from_arrays([*(columns[name] for name in COLUMNS), number], [*COLUMNS, "partition"])


def run(
    tier: Path, place: Any, *, topics: str = "s-trim", wave_bytes: int = 150_000, file_bytes: int = 60_000, **more: str
) -> ExportReport:
    options = parse({"location": str(tier), "topics": topics, "splitBytes": "30000", **more})
    limits = FileLimits(file_bytes)

    def tasks(all_tasks: Sequence[ExportTask]) -> list[ExportedPart]:
        return [ExportedPart(tuple(write_files(place, task.topic, rows_of(task), task.limits))) for task in all_tasks]

    export = Export(options=options, location="unused", limits=limits, wave_bytes=wave_bytes, run=tasks)
    return export_all(export, place)


def seen(out: Path) -> list[tuple[str, int]]:
    """What a reader of the directory sees: (topic, offset), from visible files alone."""
    files = [path for path in out.glob("topic=*/date=*/*.parquet") if not path.name.startswith((".", "_"))]
    found = []
    for path in files:
        topic = path.parent.parent.name.removeprefix("topic=")
        found += [(topic, offset) for offset in pq.ParquetFile(path).read(["offset"])["offset"].to_pylist()]
    return sorted(found)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, int]]:
    out = tmp_path_factory.mktemp("whole")
    run(samples.TIER.parent, Directory(out))
    return seen(out)


@pytest.mark.parametrize("place_of", [Directory, lambda path: Url(LocalFileSystem(), str(path))])
def test_rows_lie_by_topic_and_day_and_each_once(tmp_path: Path, place_of: Callable[[Path], Place]) -> None:
    report = run(samples.TIER.parent, place_of(tmp_path), topics="s-trim,s-none")
    assert run(samples.TIER.parent, place_of(tmp_path), topics="s-trim,s-none") == ExportReport()
    rows = seen(tmp_path)
    assert len(rows) == len(set(rows)) == report.rows > 3000
    assert {topic for topic, _ in rows} == {"s-trim", "s-none"}
    assert report.waves > 3
    for path in tmp_path.glob("topic=*/date=*/*.parquet"):
        day = path.parent.name.removeprefix("date=")
        times = pq.ParquetFile(path).read(["timestamp"])["timestamp"].to_pylist()
        assert {time.astimezone(UTC).date().isoformat() for time in times} == {day}
    assert [(one.topic, one.first_offset) for one in report.ranges] == [("s-none", 0), ("s-trim", 0)]


def test_a_second_run_adds_nothing(tmp_path: Path, expected: list[tuple[str, int]]) -> None:
    run(samples.TIER.parent, Directory(tmp_path))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert run(samples.TIER.parent, Directory(tmp_path)) == ExportReport()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == before
    assert seen(tmp_path) == expected


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_any_step_is_put_right_by_the_next_run(
    tmp_path: Path, expected: list[tuple[str, int]], after: bool
) -> None:
    """Also a crash of the run that puts right."""
    for nth in count(1):
        out = tmp_path / str(nth)
        out.mkdir()
        try:
            run(samples.TIER.parent, CrashingPlace(Directory(out), nth, after=after))
            break
        except Crash:
            rows = seen(out)
            assert len(rows) == len(set(rows)), "a reader sees nothing twice, also in between"
        with suppress(Crash):
            run(samples.TIER.parent, CrashingPlace(Directory(out), 1, after=after))
        run(samples.TIER.parent, Directory(out))
        assert seen(out) == expected
        assert not [path for path in out.rglob(".*") if path.is_file()], "no file is left behind"
    assert nth > 15


def test_only_new_segments_are_added(tmp_path: Path, expected: list[tuple[str, int]]) -> None:
    tier, out = tmp_path / "tier", tmp_path / "out"
    source = samples.tier_directory("s-trim")
    target = tier / samples.TIER.name / source.name
    target.mkdir(parents=True)
    out.mkdir()
    starts = sorted({path.name[:20] for path in source.iterdir()})
    for number, start in enumerate(starts):
        for path in source.glob(f"{start}*"):
            shutil.copy(path, target / path.name)
        before = {path.name for path in out.rglob("part-*")}
        report = run(tier, Directory(out))
        after = {path.name for path in out.rglob("part-*")}
        assert before <= after
        assert len(after) - len(before) == report.files, number
    assert seen(out) == expected


def test_files_are_about_as_large_as_asked(tmp_path: Path) -> None:
    run(samples.TIER.parent, Directory(tmp_path), file_bytes=40_000, wave_bytes=1 << 30, isolation="read_uncommitted")
    sizes = sorted(path.stat().st_size for path in tmp_path.rglob("part-*"))
    assert len(sizes) > 4
    assert sizes[-1] < 3 * 40_000


def test_another_kind_of_export_is_refused(tmp_path: Path) -> None:
    run(samples.TIER.parent, Directory(tmp_path))
    with pytest.raises(ExportError, match="exported with read_committed, and now read_uncommitted is asked for"):
        run(samples.TIER.parent, Directory(tmp_path), isolation="read_uncommitted")


@pytest.mark.parametrize(("name", "is_seen"), [("old.parquet", True), ("topic=t/x.csv", True), ("_logs/a", False)])
def test_what_readers_would_take_for_a_part_of_the_export_is_refused(tmp_path: Path, name: str, is_seen: bool) -> None:
    other = tmp_path / name
    other.parent.mkdir(exist_ok=True)
    other.write_text("somebody else's")
    if is_seen:
        with pytest.raises(ExportError, match=f"^{name} is in the directory of the export, .*a directory of its own"):
            run(samples.TIER.parent, Directory(tmp_path))
        other.unlink()
    assert run(samples.TIER.parent, Directory(tmp_path)).rows
    (tmp_path / "README").write_text("who comes later is left alone")
    assert run(samples.TIER.parent, Directory(tmp_path)) == ExportReport()


def test_a_topic_made_anew_is_refused(tmp_path: Path) -> None:
    tier, out = tmp_path / "tier", tmp_path / "out"
    shutil.copytree(samples.tier_directory("s-trim"), tier / samples.TIER.name / samples.tier_directory("s-trim").name)
    run(tier, Directory(out := tmp_path / "out"))
    (directory,) = (tier / samples.TIER.name).iterdir()
    directory.rename(directory.with_name("s-trim-0-AAAAAAAAAAAAAAAAAAAABw"))
    with pytest.raises(ExportError, match="s-trim-0: the topic was deleted and recreated"):
        run(tier, Directory(out))


def test_what_left_the_tier_before_it_was_exported_is_said(tmp_path: Path) -> None:
    tier, out = tmp_path / "tier", tmp_path / "out"
    source = samples.tier_directory("s-trim")
    target = Path(shutil.copytree(source, tier / samples.TIER.name / source.name))
    starts = sorted({path.name[:20] for path in source.iterdir()})
    ending = str(int(starts[1]))
    run(tier, Directory(out), endingOffsets=f'{{"s-trim":{{"0":{ending}}}}}')
    for start in starts[:3]:
        for path in target.glob(f"{start}*"):
            path.unlink()
    with pytest.raises(TierError, match=rf"s-trim-0: offsets \[{ending}, {int(starts[3])}\) left the tier"):
        run(tier, Directory(out))
    run(tier, Directory(out), failOnDataLoss="false")
    offsets = [offset for _, offset in seen(out)]
    assert not [offset for offset in offsets if int(ending) <= offset < int(starts[3])]
    assert max(offsets) > int(starts[4])


@pytest.mark.parametrize("asked", [{}, {"startingOffsets": '{"s-trim":{"0":1}}'}])
def test_what_was_exported_may_be_damaged_and_go(tmp_path: Path, asked: dict[str, str]) -> None:
    tier, out = tmp_path / "tier", Directory(tmp_path / "out")
    source = samples.tier_directory("s-trim")
    shutil.copytree(source, tier / samples.TIER.name / source.name)
    run(tier, out, **asked)
    log = min(tier.glob("*/*/*.log"))
    log.write_bytes(log.read_bytes()[:-5])
    assert run(tier, out, **asked) == ExportReport()
    for path in log.parent.glob(f"{log.stem}.*"):
        path.unlink()
    assert run(tier, out, **asked) == ExportReport()


def test_what_is_lacking_is_told_with_the_wave_that_passes_over_it(tmp_path: Path) -> None:
    tier = tmp_path / "tier"
    source = samples.tier_directory("s-trim")
    shutil.copytree(source, tier / samples.TIER.name / source.name)
    second = sorted(tier.glob("*/*/*.log"))[1]
    for path in second.parent.glob(f"{second.stem}.*"):
        path.unlink()
    waves: list[list[ExportTask]] = []

    def note(tasks: Sequence[ExportTask]) -> list[ExportedPart]:
        waves.append(list(tasks))
        return [ExportedPart(()) for _ in tasks]

    options = parse({"location": str(tier), "topics": "s-trim", "failOnDataLoss": "false"})
    export = Export(options=options, location="unused", limits=FileLimits(1 << 20), wave_bytes=1, run=note)
    export_all(export, Directory(tmp_path / "out"))
    lost = [any(isinstance(split, LostSplit) for task in wave for split in task.splits) for wave in waves]
    assert len(lost) > 3
    assert [number for number, is_lost in enumerate(lost) if is_lost] == [1]


def test_two_exports_at_once_do_not_both_count(tmp_path: Path, expected: list[tuple[str, int]]) -> None:
    class Late(CrashingPlace):
        """Another export runs between the tasks and the commit."""

        def create(self, path: str, data: bytes) -> bool:
            run(samples.TIER.parent, self.place)
            return self.place.create(path, data)

        def size(self, path: str) -> int | None:
            return self.place.size(path)

    with pytest.raises(ExportError, match="another export uses the same directory"):
        run(samples.TIER.parent, Late(Directory(tmp_path)))
    run(samples.TIER.parent, Directory(tmp_path))
    assert seen(tmp_path) == expected


def test_a_broken_log_is_named(tmp_path: Path) -> None:
    run(samples.TIER.parent, Directory(tmp_path))
    commit = tmp_path / "_tierfetch" / "commit-00000001.json"
    content = commit.read_bytes()
    commit.write_bytes(content[:50])
    with pytest.raises(ExportError, match=r"_tierfetch/commit-00000001.json is not a commit"):
        run(samples.TIER.parent, Directory(tmp_path))
    commit.unlink()
    with pytest.raises(ExportError, match="commit 1 of the export is missing"):
        run(samples.TIER.parent, Directory(tmp_path))


def batch(*times_ms: int) -> pa.RecordBatch:
    times = pa.array([time * 1000 for time in times_ms]).view(pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_arrays([times, pa.array(range(len(times_ms)))], ["timestamp", "offset"])


def test_days_are_of_utc_and_never_end(tmp_path: Path) -> None:
    midnight = int(datetime(2026, 11, 21, tzinfo=UTC).timestamp() * 1000)
    batches = [batch(midnight - 1, midnight, -1, 9_000_000_000_000_000 // 1000 * 1000)]
    files = write_files(Directory(tmp_path), "t", batches, FileLimits(1 << 20))
    assert sorted((file.path.split("/")[1], file.rows) for file in files) == [
        ("date=1969-12-31", 1),
        ("date=2026-11-20", 1),
        ("date=2026-11-21", 1),
        ("date=9999-12-31", 1),
    ]
    assert all((tmp_path / file.hidden_path).stat().st_size == file.size_bytes for file in files)


def test_times_that_jump_about_keep_few_files_open(tmp_path: Path) -> None:
    day_ms = 86_400_000
    batches = [batch(*(day * day_ms for day in range(40))) for _ in range(3)]
    files = write_files(Directory(tmp_path), "t", batches, FileLimits(1))
    assert sum(file.rows for file in files) == 120
    assert len({file.path for file in files}) == len(files)


@pytest.mark.parametrize("place_of", [Directory, lambda path: Url(LocalFileSystem(), str(path))])
def test_a_place_makes_a_file_once(tmp_path: Path, place_of: Callable[[Path], Place]) -> None:
    place = place_of(tmp_path)
    assert place.create("a/b.json", b"one")
    assert not place.create("a/b.json", b"two")
    assert (place.read("a/b.json"), place.size("a/b.json"), place.size("a/c")) == (b"one", 3, None)
    place.rename("a/b.json", "a/c")
    assert place.paths() == ["a/c"]
    place.remove("a/c")
    place.remove("a/c")
    assert place.paths() == []


def test_a_place_that_cannot_be_opened_is_named_without_its_password() -> None:
    with pytest.raises(ExportError, match=r"^Arrow cannot open locations with ftp://") as error:
        open_place("ftp://user:hidden@host/x")
    assert "hidden" not in str(error.value)
    assert open_place("out") == open_place(f"file://{Path('out').absolute()}") == Directory(Path("out").absolute())


def test_a_topics_name_leads_nowhere_else(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"topic name '\.\./x' is illegal"):
        write_files(Directory(tmp_path), "../x", [batch(0)], FileLimits(1))


def test_a_partition_of_which_all_that_is_asked_for_is_lost_is_told_and_done(tmp_path: Path) -> None:
    tier, out = tmp_path / "tier", Directory(tmp_path / "out")
    source = samples.tier_directory("s-trim")
    shutil.copytree(source, tier / samples.TIER.name / source.name)
    _, second, third, *_ = sorted(tier.glob("*/*/*.log"))
    for path in second.parent.glob(f"{second.stem}.*"):
        path.unlink()
    first, end = int(second.name[:20]), int(third.name[:20])
    told: list[str] = []

    def note(tasks: Sequence[ExportTask]) -> list[ExportedPart]:
        told.extend(split.message for task in tasks for split in task.splits if isinstance(split, LostSplit))
        return [ExportedPart((), tuple(told)) for _ in tasks]

    asked = {
        "startingOffsets": f'{{"s-trim":{{"0":{first}}}}}',
        "endingOffsets": f'{{"s-trim":{{"0":{end}}}}}',
        "failOnDataLoss": "false",
    }
    options = parse({"location": str(tier), "topics": "s-trim", **asked})
    export = Export(options=options, location="unused", limits=FileLimits(1 << 20), wave_bytes=1, run=note)
    report = export_all(export, out)
    assert report.passed_over == told
    assert f"offsets [{first}, {end})" in told[0]
    assert export_all(export, out) == ExportReport()
    assert len(told) == 1
