"""How a page was made: when, by which version, by which command line. Secrets of the command line are left out.

What may be a secret is left out whatever it is called: the value of every KEY=VALUE, user and query of every URL, and
the value of an option whose name speaks of a secret.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ..light_dataclass import dataclass

LEFT_OUT: Final = "***"
COMMAND_MAX: Final = 500
"""Characters of a command line that are shown."""
_SECRET: Final = re.compile(r"secret|passw|token|credential|jaas|\bkey\b|signature|sas", re.IGNORECASE)
_USER: Final = re.compile(r"(?<=://)[^/@\s]*@|(?<=://)[^/\s]*@")
_QUERY: Final = re.compile(r"[?#].*$")


@dataclass(frozen=True, slots=True)
class Made:
    """The time, the version of tierfetch, and the command line without its secrets."""

    at: datetime
    version: str
    command: str

    @classmethod
    def now(cls) -> Made:
        """Return what a page says that this process writes now."""
        from .. import __version__

        return cls(at=datetime.now(UTC), version=__version__, command=redacted(sys.argv))


def redacted(argv: Sequence[str]) -> str:
    """Return a command line that may be shown, at most `COMMAND_MAX` characters."""
    words = ["tierfetch" if Path(argv[0]).name in ("tierfetch", "main.py", "__main__.py") else Path(argv[0]).name]
    is_secret = False
    for word in argv[1:]:
        words.append(LEFT_OUT if is_secret else _shown(word))
        is_secret = word.startswith("-") and "=" not in word and _SECRET.search(word) is not None
    text = " ".join(f"'{word}'" if re.search(r"\s", word) else word for word in words)
    return text if len(text) <= COMMAND_MAX else text[: COMMAND_MAX - 1] + "…"


def _shown(word: str) -> str:
    key, equals, value = word.partition("=")
    if equals and "://" not in key:
        is_plain_option = key.startswith("--") and "=" not in value and _SECRET.search(key) is None
        return f"{key}={_shown(value)}" if is_plain_option else f"{key}={LEFT_OUT}"
    if "://" in word:
        return _QUERY.sub("?" + LEFT_OUT, _USER.sub(LEFT_OUT + "@", word))
    return word
