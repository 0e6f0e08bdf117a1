"""Which seeds and which tests reach which line; after a change only what it may have touched is recorded again.

| group             | its units              | a unit stands on                                             |
|-------------------|------------------------|--------------------------------------------------------------|
| the seeds         | seeds of the simulator | `sim`, and what of the product has no mutants                |
| a folder of tests | the modules in it      | itself, the folder's helpers, and the fakes that these import |

A group is a file. It has what each unit reached, with the sources as they were. That holds for later sources while
what the unit stands on has the same text, and so has every function that it reached, wherever in its file that is now.
So after a commit the seeds are recorded again, for they run through nearly everything, and of the tests those about
what has changed. What tests reach in folders without mutants, and constants, are not looked at: where these change what
is reached, it is seen when the unit is recorded next.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

from .generate import moved_lines
from .importing import Record
from .processes import Limits, Program, run
from .programs import ROOT, record_tests, run_seeds

FOLDERS: Final = ("log", "fetcher", "remote", "rlm", "broker", "controller", "quorum")
"""The folders of the product in which mutants are made."""
TEST_FOLDERS: Final = tuple(f"tests/{folder}" for folder in FOLDERS)
BESIDE: Final = ("protocol", "plugins", "security")
"""The folders of the product that run in the seeds, too."""
SUPPORT: Final = ("sim", "testing", "tests/fakes", "tests/conformance")
"""What tests import beside the product and their own folder."""
NO_TEST: Final = ("collection", "pytest")
"""What pytest reports under these names is not a test's failure, but its own."""
RECORDING: Final = Limits(step_cpu_s=300.0, silent_s=120.0, memory_bytes=12 << 30)


@dataclass(frozen=True, slots=True)
class Reach:
    """A seed or a test: what it takes without a mutant, and the lines that it reaches, a number with a bit each."""

    name: str
    cpu_s: float
    lines: dict[str, int]

    def reaches(self, file: str, line: int) -> bool:
        return bool(self.lines.get(file, 0) >> line & 1)


def sources_of(folders: Sequence[str] = FOLDERS) -> dict[str, str]:
    """Return the sources below some folders of the checkout, by path."""
    return {
        str(path.relative_to(ROOT)): path.read_text()
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


@dataclass(frozen=True, slots=True)
class Group:
    """What is recorded at once: units by name, each with the digest of what it stands on."""

    name: str
    units: Mapping[str, str]
    program: Callable[[Sequence[str], Record, Callable[[dict[str, Any]], None], Path], None]
    """Runs some of the units."""

    def file(self, directory: Path) -> Path:
        return directory / f"coverage-{self.name.replace('/', '-')}.json.gz"


def group_of_seeds(seeds: Sequence[int]) -> Group:
    """Return the group of the simulator's seeds."""

    def run_units(units: Sequence[str], record: Record, say: Callable[[dict[str, Any]], None], _: Path) -> None:
        run_seeds([int(unit.removeprefix("seed ")) for unit in units], say, record)

    return Group("seeds", dict.fromkeys([f"seed {seed}" for seed in seeds], _digest_of("sim", *BESIDE)), run_units)


def group_of_tests(folder: str) -> Group:
    """Return the group of a folder of tests."""
    texts = sources_of((folder,))
    modules = {path: text for path, text in texts.items() if Path(path).name.startswith("test_")}
    helpers = {path: text for path, text in texts.items() if path not in modules}
    units = {
        path: _digest_of(*_support_of([text, *helpers.values()]), texts=[text, *helpers.values()])
        for path, text in modules.items()
    }
    return Group(folder, units, lambda names, record, say, path: record_tests(names, say, path, record))


def _support_of(texts: Iterable[str]) -> list[str]:
    """Return the folders beside the product that some modules import."""
    imports = [line for text in texts for line in text.splitlines() if re.match(r"\s*(from|import)\b", line)]
    return [each for each in SUPPORT if any(re.search(rf"\b{Path(each).name}\b", line) for line in imports)]


@cache
def _folder_digest(folder: str) -> str:
    return text_digest("".join(f"{path}\0{text}\0" for path, text in sources_of((folder,)).items()))


def _digest_of(*folders: str, texts: Iterable[str] = ()) -> str:
    return text_digest("\0".join([*map(_folder_digest, folders), *texts]))


def text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(slots=True)
class Unit:
    """A line of a group's file. `files` are the digests of the sources that were reached; `reaches` have hexadecimal
    numbers.
    """

    digest: str
    files: dict[str, str] = field(default_factory=dict)
    reaches: list[tuple[str, float, dict[str, str]]] = field(default_factory=list)
    reached: dict[str, str] = field(default_factory=dict)
    """What all of it reached, also what failed or was skipped."""


def missing_units(group: Group, directory: Path) -> list[str]:
    """Return what of a group has to be recorded before its reaches are known."""
    kept, texts = _load(group.file(directory))
    held = Held(texts, sources_of())
    return [name for name, digest in group.units.items() if not held.holds(kept.get(name), digest)]


def recorded(group: Group, directory: Path) -> list[Reach]:
    """Return what a group reaches; what is not known is recorded before. Raise RuntimeError if it cannot be."""
    missing = missing_units(group, directory)
    if missing:
        _record(group, missing, directory)
    kept, texts = _load(group.file(directory))
    held = Held(texts, sources_of())
    return [reach for name in group.units for reach in held.reaches(kept[name])]


class Held:
    """What recorded units say of the sources of today. `texts` are those of then, by their digests."""

    def __init__(self, texts: Mapping[str, str], sources: Mapping[str, str]) -> None:
        self._texts = texts
        self._sources = sources
        self._digests = {file: text_digest(source) for file, source in sources.items()}

    def holds(self, unit: Unit | None, digest: str) -> bool:
        """Return whether it has to be recorded no more."""
        if unit is None or unit.digest != digest:
            return False
        return all(self._now(unit, file, int(bits, 16)) is not None for file, bits in unit.reached.items())

    def reaches(self, unit: Unit) -> Iterator[Reach]:
        for name, cpu_s, lines in unit.reaches:
            yield Reach(name, cpu_s, {file: self._now(unit, file, int(bits, 16)) or 0 for file, bits in lines.items()})

    def _now(self, unit: Unit, file: str, bits: int) -> int | None:
        """Return the bits of today's lines; None if one of them is in a function that has changed."""
        before = unit.files[file]
        if before == self._digests.get(file):
            return bits
        if file not in self._sources:
            return None
        moved = _moved(self._texts[before], self._sources[file])
        lines = [moved.get(line) for line in _lines(bits)]
        return None if None in lines else _bits(line for line in lines if line is not None)


@lru_cache(maxsize=1024)
def _moved(before: str, after: str) -> Mapping[int, int]:
    return moved_lines(before, after)


def _record(group: Group, missing: Collection[str], directory: Path) -> None:
    """Run units without a mutant, and add them to the group's file."""
    kept, texts = _load(group.file(directory))
    sources = sources_of()
    units = {name: kept[name] for name in group.units if name in kept and name not in missing}
    units |= {name: Unit(group.units[name]) for name in missing}
    for line in _ran(group, list(missing)):
        unit = units[line["end"].partition("::")[0]]
        lines = {file: f"{_bits(numbers):x}" for file, numbers in line.get("lines", {}).items()}
        for file, bits in lines.items():
            unit.reached[file] = f"{int(unit.reached.get(file, '0'), 16) | int(bits, 16):x}"
            unit.files[file] = text_digest(sources[file])
        if line["failure"] is not None:
            sys.stderr.write(f"{line['end']} fails without a mutant: {line['failure']}\n")
        elif not line.get("skipped"):
            unit.reaches.append((line["end"], line["cpu_s"], lines))
    used = {digest for unit in units.values() for digest in unit.files.values()}
    texts |= {text_digest(source): source for source in sources.values()}
    _save(group.file(directory), units, {digest: text for digest, text in texts.items() if digest in used})


def _load(path: Path) -> tuple[dict[str, Unit], dict[str, str]]:
    """Return the units of a group's file by name, and the sources that they reached, by digest."""
    if not path.exists():
        return {}, {}
    content = json.loads(gzip.decompress(path.read_bytes()))
    return {name: Unit(*unit) for name, unit in content["units"].items()}, content["sources"]


def _save(path: Path, units: Mapping[str, Unit], texts: Mapping[str, str]) -> None:
    lines = {name: [unit.digest, unit.files, unit.reaches, unit.reached] for name, unit in units.items()}
    unfinished = path.with_suffix(f".{os.getpid()}")
    unfinished.write_bytes(gzip.compress(json.dumps({"units": lines, "sources": texts}).encode(), 3))
    unfinished.rename(path)


def _ran(group: Group, units: Sequence[str]) -> list[dict[str, Any]]:
    """Return a line for each seed, or test, that was run. What fails then, or is skipped, can convict no mutant."""
    lines: list[dict[str, Any]] = []

    def on_line(line: dict[str, Any]) -> None:
        if "end" in line:
            lines.append(line)

    ending = run(_recording(group, units), RECORDING, on_line)
    if ending.kind != "done" or any(line["end"] in NO_TEST for line in lines):
        last = lines[-1]["failure"] if lines else ""
        raise RuntimeError(f"recording of {group.name}: {ending.kind} in {ending.step}, {ending.status}: {last}")
    return lines


def _recording(group: Group, units: Sequence[str]) -> Program:
    def program(say: Callable[[dict[str, Any]], None], directory: Path) -> None:
        record = Record()
        with record.recording(list(sources_of())):
            group.program(units, record, say, directory)

    return program


def _bits(numbers: Iterable[int]) -> int:
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits


def _lines(bits: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
