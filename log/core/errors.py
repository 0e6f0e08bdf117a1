"""The error of a file in a log directory, or a copy of one in the tier, that is not what its name says."""

from __future__ import annotations

from ...protocol import RetriableError


class CorruptFileError(RetriableError, ValueError):
    """The bytes of an index, a checkpoint or a snapshot cannot be what Kafka wrote.

    The message names the file (or its kind), the place in it, what was expected and what was found. All of these files
    can be rebuilt: from the log, or from the tier.
    """
