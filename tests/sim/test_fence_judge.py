"""Who may be fenced: the dead, and whoever was cut off for nearly a whole session."""

from __future__ import annotations

import pytest

from tierfetch.broker.cluster_view import BrokerRegistration, ClusterImage
from tierfetch.sim.fence_judge import GRACE_S, FenceJudge
from tierfetch.sim.invariants import InvariantViolationError
from tierfetch.sim.schedule import Fault, FaultKind

PAUSE = Fault(0, FaultKind.PAUSE, ("broker-1",), 1)
SLOW_CONTROLLER = Fault(0, FaultKind.SLOW_DISK, ("controller-11",), 1)
OTHERS = [Fault(0, FaultKind.PAUSE, ("broker-2",), 1), Fault(0, FaultKind.STORE_OUTAGE)]


class Scene:
    """Sessions of 3 s, a heartbeat each half second, at second 100; broker 1 runs since second 0."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.up_since_s: float | None = 0.0
        self.judge = FenceJudge(
            {"broker-1": 1},
            ["controller-11"],
            session_s=3.0,
            heartbeat_interval_s=0.5,
            now_s=lambda: self.now_s,
            up_since_s=lambda _: self.up_since_s,
        )

    def after(self, seconds: float, *faults: Fault) -> Scene:
        """These last then, and no others."""
        self.now_s += seconds
        self.judge.faults_are(faults)
        return self

    def fence(self, seconds: float) -> None:
        self.now_s += seconds
        self.judge.changed(image(fenced=False), image(fenced=True))


def image(*, fenced: bool, epoch: int = 7) -> ClusterImage:
    return ClusterImage("c", {1: BrokerRegistration(1, "h", 9092, fenced=fenced, epoch=epoch)}, {}, {})


@pytest.mark.parametrize("fault", [PAUSE, SLOW_CONTROLLER])
def test_a_session_that_is_over_is_right_and_half_of_one_is_not(fault: Fault) -> None:
    Scene().after(0, fault).fence(2.5)
    with pytest.raises(InvariantViolationError, match="live brokers serve"):
        Scene().after(0, fault).fence(2.0)


def test_faults_that_follow_each_other_are_one() -> None:
    Scene().after(0, PAUSE).after(1).after(1, SLOW_CONTROLLER).fence(0.5)
    with pytest.raises(InvariantViolationError):
        Scene().after(0, PAUSE).after(1).after(GRACE_S + 1, SLOW_CONTROLLER).fence(0.5)


def test_what_hits_others_is_no_reason() -> None:
    with pytest.raises(InvariantViolationError):
        Scene().after(0, *OTHERS).fence(2.5)


def test_a_process_that_is_down_or_new_may_be_fenced() -> None:
    for up_since_s in (None, 99.0):
        scene = Scene()
        scene.up_since_s = up_since_s
        scene.fence(0.5)


def test_a_registration_of_another_incarnation_is_no_fencing() -> None:
    Scene().judge.changed(image(fenced=False), image(fenced=True, epoch=8))
