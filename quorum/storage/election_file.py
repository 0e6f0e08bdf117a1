"""`quorum-state`: the vote and the leader that this replica must never forget, in Kafka's JSON (KIP-595, KIP-853).

    version 0   {"clusterId":"","leaderId":100,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,
                 "currentVoters":[{"voterId":100}],"data_version":0}                            kraft.version 0
    version 1   {"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA",
                 "data_version":1}                                                              kraft.version 1

One line without spaces or a line feed. Written whole by `Disk.write_file`, which replaces and syncs it. A file that is
there and cannot be read is refused: a voter that guessed it might vote twice in one epoch. So is one that names
other voters than the configuration, as far as both name any: it is another quorum's.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from ...log.core import CorruptFileError
from ...log.disk import Disk
from ...protocol import uuid_from_text, uuid_to_text
from ..core.state import NO_DIRECTORY_ID, ElectionState, ReplicaKey
from ..core.voters import KRAFT_VERSION_STATIC, VoterSet

QUORUM_STATE: Final = "quorum-state"
_NOBODY: Final = -1
_INT32_MAX: Final = 2**31 - 1
_VERSIONS: Final = (0, 1)
_ADVICE: Final = (
    "Remove the file, and leave the log where it is: this node then votes again when all other voters have answered it "
    "and it has followed a leader. Do not put an old copy in its place: it may lack the last vote"
)


def encode_quorum_state(state: ElectionState, *, kraft_version: int, voters: VoterSet) -> bytes:
    """`voters` are named in version 0 only."""
    leader_id = _NOBODY if state.leader_id is None else state.leader_id
    voted_id = _NOBODY if state.voted_key is None else state.voted_key.id
    document: dict[str, object]
    if kraft_version == KRAFT_VERSION_STATIC:
        document = {
            "clusterId": "",
            "leaderId": leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": node.id} for node in voters],
            "data_version": 0,
        }
    else:
        directory_id = NO_DIRECTORY_ID if state.voted_key is None else state.voted_key.directory_id
        document = {
            "leaderId": leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted_id,
            "votedDirectoryId": uuid_to_text(directory_id),
            "data_version": 1,
        }
    return json.dumps(document, separators=(",", ":")).encode()


def decode_quorum_state(data: bytes, *, name: str = QUORUM_STATE, configured: VoterSet | None = None) -> ElectionState:
    """CorruptFileError, with the file, what is wrong and what to do, for anything that Kafka would not write."""
    try:
        document = json.loads(data)
    except ValueError as error:
        raise _refused(name, f"expected JSON: {error}") from error
    if not isinstance(document, dict):
        raise _refused(name, f"expected a JSON object, found {document!r}")
    version = document.get("data_version")
    if type(version) is not int or version not in _VERSIONS:
        raise _refused(name, f"data_version must be 0 or 1, found {version!r}")
    epoch = _integer(document, "leaderEpoch", 0, name)
    leader_id = _integer(document, "leaderId", _NOBODY, name)
    voted_id = _integer(document, "votedId", _NOBODY, name)
    directory_id = NO_DIRECTORY_ID
    if version == 0:
        _check_voters(document, configured or VoterSet(), name)
    else:
        try:
            directory_id = uuid_from_text(str(document.get("votedDirectoryId")))
        except ValueError as error:
            raise _refused(name, f"votedDirectoryId: {error}") from error
    return ElectionState(
        epoch=epoch,
        leader_id=None if leader_id == _NOBODY else leader_id,
        voted_key=None if voted_id == _NOBODY else ReplicaKey(voted_id, directory_id),
    )


def _check_voters(document: dict[str, object], configured: VoterSet, name: str) -> None:
    named = document.get("currentVoters") or []
    if not isinstance(named, list) or not all(isinstance(item, dict) for item in named):
        raise _refused(name, f"currentVoters must be a list of objects, found {named!r}")
    ids = sorted(_integer(item, "voterId", 0, name) for item in named)
    if ids and configured and ids != sorted(configured.by_id):
        raise _refused(
            name, f"it is of a quorum of voters {ids}; controller.quorum.voters names {sorted(configured.by_id)}"
        )


def _integer(document: dict[str, object], key: str, minimum: int, name: str) -> int:
    value = document.get(key)
    if type(value) is not int or not minimum <= value <= _INT32_MAX:
        raise _refused(name, f"{key} must be an integer from {minimum} to {_INT32_MAX}, found {value!r}")
    return value


def _refused(name: str, reason: str) -> CorruptFileError:
    return CorruptFileError(f"{name}: {reason}. {_ADVICE}")


class ElectionFile:
    """The file in the directory of one metadata log."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._path = directory / QUORUM_STATE

    async def read(self, configured: VoterSet | None = None) -> ElectionState | None:
        """None where nothing was ever written. CorruptFileError, also if it names others than the `configured`."""
        if not await self._disk.exists(self._path):
            return None
        try:
            data = await self._disk.read_file(self._path)
        except CorruptFileError as error:
            raise CorruptFileError(f"{error}. {_ADVICE}") from error
        return decode_quorum_state(data, name=str(self._path), configured=configured)

    async def write(self, state: ElectionState, *, kraft_version: int, voters: VoterSet) -> None:
        """Durable when this returns."""
        await self._disk.write_file(self._path, encode_quorum_state(state, kraft_version=kraft_version, voters=voters))
