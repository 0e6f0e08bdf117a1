"""The families that every exception of tierfetch belongs to; `protocol.errors` has the table of them."""

from __future__ import annotations


class PeerError(Exception):
    """Another node or a client sent what cannot be served or understood."""


class RetriableError(Exception):
    """A disk, the tier or another node failed, and trying again may help."""


class OperatorError(Exception):
    """A person has to act; the message is for that person, and holds no secrets."""


class InternalError(Exception):
    """A bug, or a limit that our own code must keep."""
