"""Where the real time of a run goes: samples of the interpreter's stack, taken by the operating system's CPU timer.

    with Costs() as costs:
        world.run(...)
    print(costs.table())          # share of each folder: by whose code runs, and on whose behalf

Samples change nothing about the run: the same seed gives the same digest with and without them.
"""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final, Self

SAMPLE_S: Final = 0.001
ROOT: Final = Path(__file__).resolve().parents[2]
ELSEWHERE: Final = "python and its libraries"


class Costs:
    """`folders` counts samples by the folder whose code ran, or had called what ran; `functions` by function. Only for
    the main thread.
    """

    def __init__(self) -> None:
        self.samples = 0
        self.folders: Counter[str] = Counter()
        self.functions: Counter[str] = Counter()
        self._places: dict[str, str | None] = {}
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, SAMPLE_S, SAMPLE_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self._before)

    def table(self, functions_max: int = 0) -> str:
        """One line for each folder, and for the costliest functions if wished."""
        rows = [*self.folders.most_common(), *self.functions.most_common(functions_max)]
        return "\n".join(f"{count / max(1, self.samples):6.1%}  {name}" for name, count in rows)

    def _sample(self, _: int, frame: FrameType | None) -> None:
        self.samples += 1
        if frame is not None:
            self.functions[f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_qualname}"] += 1
        while frame is not None:
            place = self._place(frame.f_code.co_filename)
            if place is not None:
                self.folders[place] += 1
                return
            frame = frame.f_back
        self.folders[ELSEWHERE] += 1

    def _place(self, filename: str) -> str | None:
        """The folder of the package, None for code of others."""
        if filename not in self._places:
            path = Path(filename)
            is_ours = path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / ".venv")
            self._places[filename] = str(path.relative_to(ROOT).parts[0]) if is_ours else None
        return self._places[filename]
