"""What the opening of a log has to say."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class RecoveryReport:
    """What opening found and did, in sentences for a person; empty if there was nothing to say."""

    messages: list[str] = field(default_factory=list)
    scanned_segments: int = 0
    cut_bytes: int = 0

    def note(self, message: str) -> None:
        self.messages.append(message)
        logger.warning("%s", message)
