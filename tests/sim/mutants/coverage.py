"""Which seeds and which tests reach which line, recorded once for each state of the sources.

What is recorded is kept in parts, each in a file named by the content that it depends on: the product and the simulator
for the seeds, the product and a folder of tests for each folder. A change of one folder of tests repeats that folder.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .importing import Record
from .processes import Limits, Program, run
from .programs import ROOT, record_tests, run_seeds

FOLDERS: Final = ("log", "fetcher", "remote", "rlm", "broker", "controller", "quorum")
"""The folders of the product in which mutants are made."""
TEST_FOLDERS: Final = tuple(f"tests/{folder}" for folder in FOLDERS)
SOURCES: Final = (*FOLDERS, "protocol", "plugins", "security")
"""What runs in the seeds and in those tests."""
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
class Part:
    """What is recorded at once."""

    name: str
    depends_on: tuple[str, ...]
    program: Callable[[Record, Callable[[dict[str, Any]], None], Path], None]
    detail: str = ""

    def file(self, directory: Path) -> Path:
        digest = hashlib.sha256(self.detail.encode())
        for path, source in sources_of((*SOURCES, *self.depends_on)).items():
            digest.update(f"{path}\0{source}\0".encode())
        return directory / f"coverage-{self.name.replace('/', '-')}-{digest.hexdigest()[:16]}.json.gz"


def seeds_part(seeds: Sequence[int]) -> Part:
    """Return the part of the simulator's seeds."""
    return Part("seeds", ("sim",), lambda record, say, _: run_seeds(seeds, say, record), f"{list(seeds)}")


def tests_part(folder: str) -> Part:
    """Return the part of a folder of tests."""
    fakes = ("sim", "testing", "tests/fakes", "tests/conformance")
    return Part(folder, (*fakes, folder), lambda record, say, path: record_tests(folder, say, path, record))


def recorded_part(part: Part, directory: Path) -> list[Reach]:
    """Return what a part reaches, from its file if it was recorded before. Raise RuntimeError if it cannot be."""
    path = part.file(directory)
    if not path.exists():
        reaches = list(_recorded(part))
        content = [
            [each.name, each.cpu_s, {file: f"{bits:x}" for file, bits in each.lines.items()}] for each in reaches
        ]
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_bytes(gzip.compress(json.dumps(content).encode(), 3))
        unfinished.rename(path)
    content = json.loads(gzip.decompress(path.read_bytes()))
    return [Reach(name, cpu_s, {file: int(bits, 16) for file, bits in lines.items()}) for name, cpu_s, lines in content]


def _recorded(part: Part) -> Iterator[Reach]:
    """Run a part without a mutant. What fails then, or is skipped, can convict no mutant, and is left out."""
    lines: list[dict[str, Any]] = []

    def on_line(line: dict[str, Any]) -> None:
        if "end" in line:
            lines.append(line)

    ending = run(_recording(part), RECORDING, on_line)
    if ending.kind != "done" or not lines or lines[-1]["end"] == "pytest":
        last = lines[-1]["failure"] if lines else ""
        raise RuntimeError(f"recording of {part.name}: {ending.kind} in {ending.step}, {ending.status}: {last}")
    for line in lines:
        if line["failure"] is not None:
            sys.stderr.write(f"{line['end']} fails without a mutant: {line['failure']}\n")
        elif "lines" in line and not line.get("skipped"):
            yield Reach(line["end"], line["cpu_s"], {file: _bits(numbers) for file, numbers in line["lines"].items()})


def _recording(part: Part) -> Program:
    def program(say: Callable[[dict[str, Any]], None], directory: Path) -> None:
        record = Record()
        with record.recording(list(sources_of())):
            part.program(record, say, directory)

    return program


def _bits(numbers: list[int]) -> int:
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits
