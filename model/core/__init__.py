"""What a prediction says about itself: where its seconds go, and how sure it is.

causes     names what a replica waits for, and adds its seconds up.
ranges     combines what each uncertain input does to a time into a median and an 80 % interval.
drift      says whether a prediction still holds while its moves run, and corrects its end.
outlook    is a prediction as it is kept in files, and the history of what came of predictions.
learning   computes what that history says of a calibration.
"""

from __future__ import annotations

from .causes import CAUSES, Cause, Seconds, critical_seconds, seconds_of
from .drift import Correction, Sight, corrected
from .learning import Lesson, learned
from .outlook import Outlook, Past, history_of, parse_history
from .ranges import EXACT, Effect, Range, combined

__all__ = [
    "CAUSES",
    "EXACT",
    "Cause",
    "Correction",
    "Effect",
    "Lesson",
    "Outlook",
    "Past",
    "Range",
    "Seconds",
    "Sight",
    "combined",
    "corrected",
    "critical_seconds",
    "history_of",
    "learned",
    "parse_history",
    "seconds_of",
]
