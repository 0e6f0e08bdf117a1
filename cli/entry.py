"""The first line of the `tierfetch` command: Ctrl-C ends it quietly with exit code 130, whatever it is about.

| moment | what an interrupt does |
|---|---|
| Python itself starts, some 10 ms | Python's affair: the process is killed by it, or Python shows its own trace |
| imports | ends the process at once: it has begun nothing |
| a command runs | KeyboardInterrupt: the command cleans up, and `main` turns it into the exit code |
| a node runs (broker, controller, server) | the node stops in order, with its own exit code |
| the command has ended, Python has not | ends the process at once: there is nothing left to do |

Where the caller has Ctrl-C ignored, as a shell does for what a script starts in the background, it stays so.

This module imports nothing that Python has not loaded by itself, so that it is there within a millisecond.
"""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import Final

_INTERRUPTED: Final = 130


def main() -> None:
    """The console script's entry point."""
    try:
        import signal

        is_obeyed = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
        if is_obeyed:
            signal.signal(signal.SIGINT, _end_at_once)
        from .main import main as command

        try:
            if is_obeyed:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            command()
        finally:
            if is_obeyed:
                signal.signal(signal.SIGINT, _end_at_once)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def _end_at_once(_number: int, _frame: FrameType | None) -> None:
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
