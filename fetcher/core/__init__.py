"""The decisions of one validated Fetch, on the leader's and on the follower's side, and of a bootstrap. Pure.

partition_fetch    declares the request and the response of one partition.
epoch_fetch        decides the leader's answer to a Fetch, and where the follower truncates (KIP-101, KIP-595).
fetch_outcome      decides what a follower does with an answer that disagrees with its log.
policy_rules       checks the decision of a policy that is a plugin against what its leader returned.
policies           chooses where an empty follower begins: one generator for each bootstrap policy.
bootstrap          declares the requests, replies and decisions of a bootstrap, and when a policy may act.
leader_offsets     answers ListOffsets with a special timestamp (KIP-405, KIP-1005, KIP-1023).
leader_replicas    keeps followers' positions in one leader epoch; derives high watermark and ISR changes.
replication_quota  limits how fast replicas outside the ISR are filled (KIP-73).
fetched_records    finds the first byte and the last whole batch in a Fetch answer.
"""

from __future__ import annotations

from .bootstrap import (
    AdoptFromTier,
    Answer,
    AskEpochEnd,
    AskOffsets,
    AskRemoteSegments,
    BootstrapPolicy,
    Decision,
    Offsets,
    Plan,
    Question,
    RemoteSegments,
    ResumeFetch,
    RetryLater,
    Situation,
    StartAt,
    Trigger,
    TruncateTo,
)
from .epoch_fetch import (
    QUORUM_RULES,
    DivergingEpoch,
    FetchDecision,
    FetchIsolation,
    FetchPosition,
    LeaderView,
    ReadRemote,
    Refuse,
    Serve,
    check_leader_epoch,
    end_offset_for_leader_epoch,
    truncation_for,
    validate_fetch,
)
from .leader_offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MINIMUM_VERSIONS,
    special_offset,
)
from .leader_replicas import FollowerFetch, LeaderReplicas
from .partition_fetch import FetchedPartition, FetchLimits, PartitionToFetch
from .policies import BoundedLocal, EarliestPendingUpload, LocalLogStart, LogStart, TierFirst
from .policy_rules import ANSWERS, broken_rule
from .replication_quota import ReplicationQuota, throttled_partitions

__all__ = [
    "ANSWERS",
    "EARLIEST_LOCAL_TIMESTAMP",
    "EARLIEST_PENDING_UPLOAD_TIMESTAMP",
    "EARLIEST_TIMESTAMP",
    "LATEST_TIERED_TIMESTAMP",
    "LATEST_TIMESTAMP",
    "MINIMUM_VERSIONS",
    "QUORUM_RULES",
    "AdoptFromTier",
    "Answer",
    "AskEpochEnd",
    "AskOffsets",
    "AskRemoteSegments",
    "BootstrapPolicy",
    "BoundedLocal",
    "Decision",
    "DivergingEpoch",
    "EarliestPendingUpload",
    "FetchDecision",
    "FetchIsolation",
    "FetchLimits",
    "FetchPosition",
    "FetchedPartition",
    "FollowerFetch",
    "LeaderReplicas",
    "LeaderView",
    "LocalLogStart",
    "LogStart",
    "Offsets",
    "PartitionToFetch",
    "Plan",
    "Question",
    "ReadRemote",
    "Refuse",
    "RemoteSegments",
    "ReplicationQuota",
    "ResumeFetch",
    "RetryLater",
    "Serve",
    "Situation",
    "StartAt",
    "TierFirst",
    "Trigger",
    "TruncateTo",
    "broken_rule",
    "check_leader_epoch",
    "end_offset_for_leader_epoch",
    "special_offset",
    "throttled_partitions",
    "truncation_for",
    "validate_fetch",
]
