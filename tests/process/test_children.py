"""What a test starts does not outlive it."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Final

import psutil
import pytest

from tierfetch.cli.local.processes import poll
from tierfetch.tests.process.children import ended, started

STUBBORN: Final = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child:
    print(child, flush=True)
time.sleep(600)
"""


def test_nothing_is_left_of_a_process_that_ignores_sigterm() -> None:
    process = started([sys.executable, "-c", STUBBORN], subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout, pytest.raises(subprocess.TimeoutExpired), ended(process, timeout_s=0.1):
        child = int(process.stdout.readline())
    assert process.returncode == -signal.SIGKILL
    for _ in poll(60, "the child to have ended"):
        if not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE:
            break
