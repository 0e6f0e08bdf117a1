"""The report of what the opening of a log found and did."""

from __future__ import annotations

import logging
from dataclasses import field

from ...light_dataclass import dataclass

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class RecoveryReport:
    """The findings and repairs of one opening, in sentences for an operator; empty if there were none."""

    messages: list[str] = field(default_factory=list)
    scanned_segments: int = 0
    cut_bytes: int = 0

    def note(self, message: str) -> None:
        self.messages.append(message)
        logger.warning("%s", message)
