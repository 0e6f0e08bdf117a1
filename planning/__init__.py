"""Which replicas go where, with as few bytes as possible, and how a plan is carried out. Pure.

Planning, arrays to arrays (numpy). Begin with `planner`:

move_plan      is what embedding programs call: `plan_moves`.
planner        plans a move of replicas: from a cluster and a goal to a plan.
goals          declares what is asked for: replace, add, remove, rebalance.
placement      is the cluster while it is planned, one batch of moves after another.
forced         places replicas that cannot stay.
balancing      decides how many replicas and bytes each broker gives and takes.
sharing        divides what givers give as one choice among all their replicas.
choice         chooses the replicas that balance disks for the least copying.
handing        hands replicas from brokers that give to brokers that take.
disks          evens out the disks that are left.
refining       takes back, exchanges and trades moves, for fewer bytes (a folder).
leaders        evens out preferred leaders without moving bytes.
bounds         computes how few moves and bytes any plan needs.
headroom       computes the capacity that producers and consumers leave to moves.
waves          orders the moves so that this headroom is kept.
tier_first     computes what is saved when leaders roll and tier before the move.
plan_arrays    converts plan files to arrays and back.

Carrying a plan out, without numpy. Begin with `execution`:

execution      decides the next step: `next_step(journal, state, now)`.
plan_file      reads and writes a plan as kafka-reassign-partitions JSON.
preflight      checks a plan against the cluster before it starts, and whether sizes are those that it was made for.
journal        holds what the execution must remember.
cluster_state  holds what the cluster reports of the plan's partitions.
directories    decides what to ask of brokers about the log directories of replicas (KIP-113).
throttling     computes the throttle configs of one wave (KIP-73).
neighbours     detects other plans on the same brokers or topics.

Other folders import what is exported here. What needs numpy is imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..doors import lazy_door
from .cluster_state import ClusterState, PartitionState, Placement, Standing, standing
from .directories import DirectoryMove, is_complete, replicas_of, to_stop
from .execution import (
    Action,
    ElectLeaders,
    Finish,
    MoveDirectories,
    Note,
    Reassign,
    Roll,
    SetConfigs,
    TakeBack,
    Wait,
    expected_end,
    next_step,
    throttled_brokers,
    unforeseen,
    what_is_left,
)
from .goals import Goal, PlanError, PlanOptions
from .journal import (
    ENDED,
    ConfigValue,
    Entry,
    Event,
    Header,
    Journal,
    JournalError,
    Key,
    Mode,
    Outcome,
    line_of,
    parse_event,
    parse_journal,
)
from .neighbours import signs_of_others
from .plan_file import PlanFile, PlanFileError, PlannedPartition
from .preflight import directories_of, entries_of, sizes_differ, waves_again
from .throttling import FOLLOWER_RATE, LEADER_RATE, config_keys

if TYPE_CHECKING:
    from .move_plan import MovePlan, plan_moves
    from .plan_arrays import plan_file_of, planned_replicas
    from .planner import ReplicaPlan, plan_replicas

__all__ = [
    "ENDED",
    "FOLLOWER_RATE",
    "LEADER_RATE",
    "Action",
    "ClusterState",
    "ConfigValue",
    "DirectoryMove",
    "ElectLeaders",
    "Entry",
    "Event",
    "Finish",
    "Goal",
    "Header",
    "Journal",
    "JournalError",
    "Key",
    "Mode",
    "MoveDirectories",
    "MovePlan",
    "Note",
    "Outcome",
    "PartitionState",
    "Placement",
    "PlanError",
    "PlanFile",
    "PlanFileError",
    "PlanOptions",
    "PlannedPartition",
    "Reassign",
    "ReplicaPlan",
    "Roll",
    "SetConfigs",
    "Standing",
    "TakeBack",
    "Wait",
    "config_keys",
    "directories_of",
    "entries_of",
    "expected_end",
    "is_complete",
    "line_of",
    "next_step",
    "parse_event",
    "parse_journal",
    "plan_file_of",
    "plan_moves",
    "plan_replicas",
    "planned_replicas",
    "replicas_of",
    "signs_of_others",
    "sizes_differ",
    "standing",
    "throttled_brokers",
    "to_stop",
    "unforeseen",
    "waves_again",
    "what_is_left",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__,
        {
            "MovePlan": "move_plan",
            "ReplicaPlan": "planner",
            "plan_file_of": "plan_arrays",
            "plan_moves": "move_plan",
            "plan_replicas": "planner",
            "planned_replicas": "plan_arrays",
        },
    )
