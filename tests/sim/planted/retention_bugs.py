"""Bugs of retention in the tier: what goes, when, and who says so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

from tierfetch.log.core import UNLIMITED
from tierfetch.remote.core import RemoteLogSegmentState
from tierfetch.rlm import partition_task
from tierfetch.rlm.core import plan
from tierfetch.sim.faults.schedule import FaultKind
from tierfetch.tests.sim.planted.registry import planted

BY_SIZE = (4_000, 12_000)
BY_TIME = (3_000, 6_000)


@planted(
    "retention by size takes the segment that crosses the limit, too",
    file="rlm/core/retention.py",
    scenario="cluster",
    needs_quiet=True,
    retention_bytes=BY_SIZE,
)
def crosses_the_limit() -> Iterator[None]:
    original = plan.breached_remote_segments

    def breached(oldest, *, retention_bytes, total_bytes, **kwargs):
        oldest = list(oldest)
        taken = original(oldest, retention_bytes=retention_bytes, total_bytes=total_bytes, **kwargs)
        total = total_bytes - sum(size for _, size in oldest[: len(taken)])
        crosses = UNLIMITED < retention_bytes < total
        return [segment for segment, _ in oldest[: len(taken) + crosses]]

    with patch.object(plan, "breached_remote_segments", breached):
        yield


@planted(
    "retention by time takes one segment too many",
    file="rlm/core/retention.py",
    scenario="cluster",
    needs_quiet=True,
    retention_ms=BY_TIME,
)
def one_too_many() -> Iterator[None]:
    original = plan.breached_remote_segments

    def breached(oldest, *, retention_ms, **kwargs):
        oldest = list(oldest)
        count = len(original(oldest, retention_ms=retention_ms, **kwargs))
        return [segment for segment, _ in oldest[: count + (count > 0 and retention_ms >= 0)]]

    with patch.object(plan, "breached_remote_segments", breached):
        yield


@planted(
    "retention by size is not looked at where there is none by time",
    file="rlm/core/retention.py",
    scenario="cluster",
    needs_quiet=True,
    retention_bytes=BY_SIZE,
    segment_bytes=(3_000,),
    gap_ms=(100,),
)
def size_alone_is_overlooked() -> Iterator[None]:
    original = plan.breached_remote_segments

    def breached(oldest, *, retention_ms, **kwargs):
        return [] if retention_ms < 0 else original(oldest, retention_ms=retention_ms, **kwargs)

    with patch.object(plan, "breached_remote_segments", breached):
        yield


@planted(
    "expired segments go before the log start has risen",
    file="rlm/core/plan.py",
    scenario="cluster",
    faults=(FaultKind.SLOW_DISK, FaultKind.PROCESS_CRASH, FaultKind.MOVE_LEADER),
    retention_bytes=BY_SIZE,
)
def deleted_first() -> Iterator[None]:
    original = plan.plan_upkeep

    def upkeep(view, now_ms):
        planned = original(view, now_ms)
        raised = [action for action in planned if isinstance(action, plan.RaiseLogStart)]
        if not raised:
            return planned
        start = raised[0].to_offset
        after = replace(view, log_start_offset=start, isr_log_start_min=start)
        return [*plan._delete_remote(after), *planned]

    with patch.object(plan, "plan_upkeep", upkeep), patch.object(partition_task, "plan_upkeep", upkeep):
        yield


@planted(
    "expired segments go before the ISR has the raised log start",
    file="rlm/core/plan.py",
    scenario="cluster",
    faults=(FaultKind.PAUSE, FaultKind.SLOW_LINK, FaultKind.SLOW_DISK, FaultKind.PARTITION),
    retention_bytes=BY_SIZE,
)
def not_waited_for_the_isr() -> Iterator[None]:
    original = plan._delete_remote

    def delete_remote(view):
        return original(replace(view, isr_log_start_min=view.log_start_offset))

    with patch.object(plan, "_delete_remote", delete_remote):
        yield


@planted(
    "a follower applies retention by itself",
    file="rlm/core/plan.py",
    scenario="cluster",
    needs_quiet=True,
    retention_bytes=BY_SIZE,
)
def follower_expires() -> Iterator[None]:
    original = plan.plan_upkeep

    def upkeep(view, now_ms):
        """What a deposed leader has begun is finished."""
        planned = original(view, now_ms)
        return planned if view.is_leader else [*plan._raise_log_start(view, now_ms), *planned]

    with patch.object(plan, "plan_upkeep", upkeep), patch.object(partition_task, "plan_upkeep", upkeep):
        yield


@planted(
    "the last segment that has expired is left in the tier",
    file="rlm/core/plan.py",
    scenario="cluster",
    needs_quiet=True,
    retention_bytes=BY_SIZE,
)
def expired_and_left() -> Iterator[None]:
    original = plan._delete_remote

    def delete_remote(view):
        doomed = [segment for action in original(view) for segment in action.segment_ids]
        segments = view.ledger.segments()
        ends = {each.segment_id: each.end_offset for each in segments}
        finished = {each.segment_id for each in segments if each.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED}
        kept = [each for each in doomed if each not in finished or ends[each] + 1 < view.log_start_offset]
        return [plan.DeleteRemote(tuple(kept))] if kept else []

    with patch.object(plan, "_delete_remote", delete_remote):
        yield


@planted(
    "uploads that were given up are never cleaned away",
    file="rlm/core/plan.py",
    scenario="cluster",
    faults=(FaultKind.HALF_UPLOADS, FaultKind.STORE_ERRORS, FaultKind.PROCESS_CRASH),
    copy_timeout_ms=(1_500,),
)
def orphans_are_left() -> Iterator[None]:
    with patch.object(plan, "_abandon_orphans", lambda view, now_ms: []):
        yield
