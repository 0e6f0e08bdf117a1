"""`tierfetch demo`: replace a broker under each bootstrap policy, time it, and prove the result."""

from .command import demo

__all__ = ["demo"]
