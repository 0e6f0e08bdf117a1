"""`python -m tierfetch.tests.quorum.model epochs=3 entries=3 crashes=1 [delays_disk=1 ...]`: a larger search.

Prints how many states there are, or the shortest way to one that is not safe. Exit code 1 for the latter.
"""

from __future__ import annotations

import sys

from .explore import explore
from .model import Bounds


def main(arguments: list[str]) -> int:
    words = dict(argument.split("=") for argument in arguments)
    bounds = Bounds(**{name: int(value) for name, value in words.items()})
    found = explore(bounds)
    print(f"{bounds}\n{found}")  # noqa: T201
    return found.violation is not None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
