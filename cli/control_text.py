"""Control records as `kafka-dump-log` prints them."""

from __future__ import annotations

import json

from ..protocol import uuid_to_text
from ..protocol.records import (
    WRITTEN_VERSION,
    ControlType,
    KRaftVersion,
    LeaderChange,
    QuorumRecord,
    Record,
    SnapshotFooter,
    SnapshotHeader,
    Voter,
    Voters,
    control_type,
    parse_end_transaction_marker,
    parse_quorum_record,
)
from ..quorum import NO_DIRECTORY_ID


def control_text(record: Record) -> str:
    kind = control_type(record)
    if kind in {ControlType.ABORT, ControlType.COMMIT}:
        return f"endTxnMarker: {kind.name} coordinatorEpoch: {parse_end_transaction_marker(record).coordinator_epoch}"
    value = parse_quorum_record(record)
    if value is None:
        return f"controlType: {kind.name}"
    name, fields = _json_of(value)
    return f"{name} {json.dumps({'version': WRITTEN_VERSION, **fields}, separators=(',', ':'))}"


def _json_of(value: QuorumRecord) -> tuple[str, dict[str, object]]:
    match value:
        case LeaderChange(leader_id, voters, granting):
            fields = {
                "leaderId": leader_id,
                "voters": [{"voterId": voter} for voter in voters],
                "grantingVoters": [{"voterId": voter} for voter in granting],
            }
            return "LeaderChange:", fields
        case SnapshotHeader(timestamp_ms):
            return "SnapshotHeader", {"lastContainedLogTimestamp": timestamp_ms}
        case SnapshotFooter():
            return "SnapshotFooter", {}
        case KRaftVersion(level):
            return "KRaftVersion", {"kRaftVersion": level}
        case Voters(voters):
            return "KRaftVoters", {"voters": [_voter(voter) for voter in voters]}


def _voter(voter: Voter) -> dict[str, object]:
    return {
        "voterId": voter.voter_id,
        "voterDirectoryId": uuid_to_text(voter.directory_id or NO_DIRECTORY_ID),
        "endpoints": [{"name": item.name, "host": item.host, "port": item.port} for item in voter.endpoints],
        "kRaftVersionFeature": {
            "minSupportedVersion": voter.min_kraft_version,
            "maxSupportedVersion": voter.max_kraft_version,
        },
    }
