"""docs/library.md: its example runs and type-checks, and the public names are those of `public_names.txt`."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from random import Random
from shutil import copy

import pytest

from tierfetch.protocol.records import Record, build_batch

from .fakes.random_tier import Batch, History, Segment, segments, write_kafka_tier
from .test_tidy import ROOT

NAMES = Path(__file__).with_name("public_names.txt")
PUBLIC = {
    "tierfetch.broker": ("EmbeddedBroker", "join_cluster", "open_server"),
    "tierfetch.fetcher": ("EmbeddedFollower", "follow"),
    "tierfetch.log": ("EmbeddedLog", "LogSummary", "open_log", "verify_log"),
    "tierfetch.model": (
        "FailoverPrediction",
        "ReplacementPrediction",
        "predict_death",
        "predict_replacement",
        "read_cluster",
    ),
    "tierfetch.planning": ("MovePlan", "plan_moves"),
    "tierfetch.remote": ("Tier", "TierLog", "TierSegment", "open_tier"),
    "tierfetch.rlm": ("TieredLog", "tier_log"),
}
LINES_MAX = 40


def examples() -> list[str]:
    page = (ROOT / "docs/library.md").read_text()
    return [part.partition("```")[0] for part in page.split("```python\n")[1:]]


def exported() -> Iterator[tuple[str, object]]:
    """Every public name with its value: functions, classes, and what a class has for its callers."""
    for module, names in PUBLIC.items():
        for name in names:
            value = getattr(import_module(module), name)
            if not inspect.isclass(value) or is_dataclass(value):
                yield f"{module}.{name}", value
                continue
            assert value.__doc__, name
            for member, part in vars(value).items():
                if not member.startswith("_"):
                    yield f"{module}.{name}.{member}", part


def signature(value: Callable[..., object]) -> str:
    """The parameters by name and kind, without types and defaults."""
    parameters = inspect.signature(value).parameters.values()
    bare = [each.replace(annotation=each.empty, default=each.empty) for each in parameters]
    return str(inspect.Signature(bare))


def test_the_public_names_are_those_promised() -> None:
    found = [name + ("" if isinstance(value, property) else signature(value)) for name, value in exported()]
    assert sorted(found) == NAMES.read_text().splitlines()[1:]


@pytest.mark.parametrize(("name", "value"), [pytest.param(*each, id=each[0]) for each in exported()])
def test_each_public_name_has_a_docstring_and_types(name: str, value: object) -> None:
    function = value.fget if isinstance(value, property) else value
    assert callable(function), name
    documentation = inspect.getdoc(function)
    assert documentation, name
    hints = inspect.signature(function)
    untyped = [each.name for each in hints.parameters.values() if each.name != "self" and each.annotation is each.empty]
    assert untyped == [], name
    assert hints.return_annotation is not hints.empty, name
    if inspect.isfunction(function) and not isinstance(value, property):
        assert "    " in documentation, f"{name} has an example"


PRINTED = (
    ["1 b'orders' b'two'", "2 None b'three'", "3 records in 1 segment"],
    ["in the tier: below 2", "0 b'one'", "1 b'two'", "2 b'three'"],
    ["random: offsets 0 to 4, 2 segments", "2 b'two'", "3 b'three'"],
    ["caught up at 1", "0 b'one'", "1 b'two'"],
    ["0 b'one'"],
    [
        "log-start: 15 replicas in sync after 38 min,",
        "  826 GiB from leaders",
        "tier-first: 15 replicas in sync after 4 min,",
        "  92 GiB from leaders",
        "a dead host: 5 partitions take nothing for 9 s",
        "17 partitions move, 85 GiB",
    ],
)


def two_segments() -> list[Segment]:
    """What the example about a tier reads: two segments of two records."""
    history = History()
    for offset, value in enumerate((b"zero", b"one", b"two", b"three")):
        data = build_batch([Record(offset, 0, None, value)], base_offset=offset)
        history.batches.append(Batch(data, offset, offset + 1, 0, -1, is_transactional=False, records=()))
    return list(segments(history, [2], Random(0)))


@pytest.mark.parametrize(
    ("example", "printed"),
    [*zip(examples(), PRINTED, strict=True)],
    ids=["log", "rlm", "remote", "fetcher", "broker", "model"],
)
def test_each_example_runs(tmp_path: Path, example: str, printed: list[str]) -> None:
    assert len(example.splitlines()) < LINES_MAX
    script = tmp_path / "example.py"
    script.write_text(example)
    copy(ROOT / "docs/examples/cluster.yaml", tmp_path)
    write_kafka_tier(tmp_path / "tier", two_segments())
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (done.stdout.splitlines(), done.stderr) == (printed, "")


@pytest.mark.packaging
def test_the_example_passes_mypy_strict(tmp_path: Path) -> None:
    for number, example in enumerate(examples()):
        (tmp_path / f"example_{number}.py").write_text(example)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
