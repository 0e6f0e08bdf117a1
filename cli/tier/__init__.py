"""`tierfetch tier`: what lies in a remote tier, and whether it is what the remote log metadata says."""

from .command import tier

__all__ = ["tier"]
