"""Set the switch interval of the interpreters of a benchmark's brokers: the folder is on their `PYTHONPATH` alone."""

import os
import sys

_interval_ms = os.environ.get("TIERFETCH_BENCH_SWITCH_INTERVAL_MS")
if _interval_ms:
    sys.setswitchinterval(float(_interval_ms) / 1000)
