"""What texts take of a broker's memory: clients choose them, and what they take counts towards a limit."""

from __future__ import annotations

from typing import Final

CHARACTER_BYTES_MAX: Final = 4
"""A text takes as much for each character as for the widest of them."""


def text_bytes(*texts: str | None) -> int:
    """Return the bytes that texts take at most. The same text always counts the same; None counts nothing."""
    return sum([len(text) * (1 if text.isascii() else CHARACTER_BYTES_MAX) for text in texts if text is not None])
