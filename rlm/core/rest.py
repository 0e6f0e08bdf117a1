"""When a partition need not be looked at: nothing has changed on which the last look depended. Pure.

A view and a plan of it cost 0.1 ms and more; most looks of a broker with many partitions see what they saw before. A
look that found nothing to do leaves a `Rest`: what it saw (`Inputs`), and the times at which it would find nothing
again (`moment.py`). While both hold, the next look is left out.

| what the decisions depend on                             | is the same while                                        |
|----------------------------------------------------------|----------------------------------------------------------|
| the partition, the broker, the role and its leader epoch | the task lives: another role has another task            |
| deadlines and limits of the broker                       | always                                                   |
| the topic's configuration                                | `config` is equal                                        |
| the offsets of the log, and which leaders wrote them     | `log_start_known`, its five offsets and `epochs` are     |
|                                                          | equal                                                    |
| the closed segments: offsets, sizes, timestamps          | `segments` is the same list at the same version, and the |
|                                                          | log end is the same                                      |
| the active segment: the same of it                       | that, and the three values of it are equal               |
| the open transaction that holds back copies              | `oldest_open` is equal. While one does, there is no rest |
| the remote segments, what was deleted                    | `ledger` is the same object at the same version          |
| the usable segments of it                                | that, the epochs, the offsets and `findings_version`     |
| what is proven and disproven                             | `findings_version`: a bad finding that became old is     |
|                                                          | forgotten before it is compared                          |
| the log starts in the ISR                                | `isr_log_start_min` is equal                             |
| what this broker copies, and why its last copy ended     | `copying`, `rival` and `damaged_base_offset` are equal   |
| the time: retention, copies of others that may be alive  | `since_ms` <= now < `until_ms`                           |

A look that planned what it had just performed, without effect, leaves no rest, and neither does one that failed.
"""

from __future__ import annotations

from typing import NamedTuple

from ...log.core import EpochEntry, LogConfig, OpenTransaction
from ...remote.core import RemoteLogLedger, RemoteLogSegmentId, RemoteLogSegmentMetadata
from .moment import Moment


class Inputs(NamedTuple):
    """All that a look sees of a partition and that can change, as values that are quick to compare. See the module's
    docstring; a view is built of the same.
    """

    ledger: RemoteLogLedger | None
    ledger_version: int
    config: LogConfig
    log_start_known: bool
    log_start_offset: int
    local_log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    log_end_offset: int
    epochs: tuple[EpochEntry, ...]
    segments: object
    segments_version: int
    active_end_offset: int
    active_size_bytes: int
    active_timestamp_ms: int
    oldest_open: OpenTransaction | None
    isr_log_start_min: int
    copying: RemoteLogSegmentId | None
    findings_version: int
    rival: RemoteLogSegmentMetadata | None
    damaged_base_offset: int | None


class Rest(NamedTuple):
    """What a look saw that found nothing to do, and at which times it would find nothing again."""

    inputs: Inputs
    moment: Moment

    def holds(self, inputs: Inputs, now_ms: int) -> bool:
        """Return whether a look that sees `inputs` at `now_ms` finds nothing either."""
        return self.moment.since_ms <= now_ms < self.moment.until_ms and inputs == self.inputs
