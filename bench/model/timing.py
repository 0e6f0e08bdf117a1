"""What one run came to.

| figure | from | to |
|---|---|---|
| start to ISR | just before the process is started | first look that finds it in the ISR of every partition |
| the same, of a failover | the death of broker 2 | first look that finds broker 1 leading every partition |
| the same, of a rebalance | first look that finds a replica list changed | all as planned and in sync |
| first data | the same | first look at a directory of the topic on its disk |
| all data | the same | last growth of its logs that a look found; in calibration only |
| fenced | kill -9 | first look that finds it in no ISR |
| copied | - | bytes of the topic on its disk when it has joined |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds as in the module's table. CPU seconds of the two brokers from the start to the ISR; of a rebalance
    those of all brokers, as the leader's.
    """

    start_to_isr_s: float
    first_data_s: float
    all_data_s: float
    fenced_s: float
    copied_bytes: int
    leader_cpu_s: float
    follower_cpu_s: float
    moves: int = 0
    waves: int = 1
    """The replicas that came in a rebalance, and in how many waves."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    whole_seconds: Mapping[str, float] = field(default_factory=dict)
    """Where the time of the last replica went, and that of all waves (`breakdown`); empty where nothing says."""
