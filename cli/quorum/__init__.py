"""The `tierfetch quorum` commands."""

from .command import quorum

__all__ = ["quorum"]
