"""`quorum-state`: Kafka's bytes, and everything that is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.log.core import CorruptFileError
from tierfetch.protocol.topics import uuid_from_text
from tierfetch.quorum.core.state import ElectionState, ReplicaKey
from tierfetch.quorum.core.voters import VoterNode, VoterSet
from tierfetch.quorum.storage.election_file import ElectionFile, decode_quorum_state, encode_quorum_state
from tierfetch.tests import samples
from tierfetch.tests.fakes.disk import DiskCrash, MemoryDisk, failures

SAMPLE = (samples.CONTROLLER / "__cluster_metadata-0" / "quorum-state").read_bytes()
VERSION_1 = b'{"leaderId":-1,"leaderEpoch":4,"votedId":2,"votedDirectoryId":"8fF03T8mTdKrJ8jUAsW8zA","data_version":1}'
VOTERS = VoterSet.of([VoterNode(ReplicaKey(100))])
VOTED = ReplicaKey(2, uuid_from_text("8fF03T8mTdKrJ8jUAsW8zA"))


def test_Q1_the_file_of_a_real_controller() -> None:
    state = decode_quorum_state(SAMPLE)
    assert state == ElectionState(epoch=1, leader_id=100)
    assert encode_quorum_state(state, kraft_version=0, voters=VOTERS) == SAMPLE


def test_Q1_version_1_names_the_directory_voted_for() -> None:
    state = decode_quorum_state(VERSION_1)
    assert state == ElectionState(epoch=4, voted_key=VOTED)
    assert encode_quorum_state(state, kraft_version=1, voters=VOTERS) == VERSION_1


states = st.builds(
    ElectionState,
    st.integers(0, 2**31 - 1),
    st.none() | st.integers(0, 2**31 - 1),
    st.none() | st.builds(ReplicaKey, st.integers(0, 2**31 - 1), st.uuids()),
)


@given(states)
def test_there_and_back(state: ElectionState) -> None:
    assert decode_quorum_state(encode_quorum_state(state, kraft_version=1, voters=VOTERS)) == state


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "expected JSON"),
        (b"\0" * 120, "expected JSON"),
        (SAMPLE[:-20], "expected JSON"),
        (b"[]", "expected a JSON object"),
        (b"{}", "data_version must be 0 or 1, found None"),
        (SAMPLE.replace(b'"data_version":0', b'"data_version":2'), "data_version must be 0 or 1, found 2"),
        (SAMPLE.replace(b'"leaderEpoch":1', b'"leaderEpoch":-1'), "leaderEpoch must be an integer from 0"),
        (SAMPLE.replace(b'"leaderEpoch":1', b'"leaderEpoch":"1"'), "leaderEpoch must be an integer from 0"),
        (SAMPLE.replace(b'"leaderEpoch":1,', b""), "leaderEpoch must be an integer from 0"),
        (SAMPLE.replace(b'"votedId":-1', b'"votedId":-2'), "votedId must be an integer from -1"),
        (SAMPLE.replace(b'"leaderId":100', b'"leaderId":4294967296'), "leaderId must be an integer from -1"),
        (VERSION_1.replace(b"8fF03T8mTdKrJ8jUAsW8zA", b"short"), "votedDirectoryId"),
    ],
)
def test_Q1_a_foreign_or_corrupt_file_is_refused_with_advice(data: bytes, said: str) -> None:
    with pytest.raises(CorruptFileError, match=said) as caught:
        decode_quorum_state(data, name="/d/quorum-state")
    assert str(caught.value).startswith("/d/quorum-state: ")
    assert "Remove the file, and leave the log where it is" in str(caught.value)


@given(st.dictionaries(st.sampled_from(["leaderId", "leaderEpoch", "votedId", "data_version", "x"]), st.integers()))
def test_any_other_json_is_read_or_refused(document: dict[str, Any]) -> None:
    try:
        decode_quorum_state(json.dumps(document).encode())
    except CorruptFileError:
        return


async def test_Q1_a_crash_leaves_the_old_vote_or_the_new() -> None:
    directory = Path("/data/__cluster_metadata-0")
    before, after = ElectionState(3, leader_id=1), ElectionState(4, voted_key=VOTED)
    for fault in failures(crash=True):
        disk = MemoryDisk()
        disk.put(directory / "quorum-state", encode_quorum_state(before, kraft_version=1, voters=VOTERS))
        disk.faults = fault
        try:
            await ElectionFile(disk, directory).write(after, kraft_version=1, voters=VOTERS)
            done = True
        except DiskCrash:
            done = False
        found = await ElectionFile(disk.restart("lost"), directory).read()
        assert found == after if done else found in (before, after)
        if done:
            break


async def test_nothing_was_written_yet() -> None:
    disk = MemoryDisk()
    await disk.make_directory(Path("/data"))
    assert await ElectionFile(disk, Path("/data")).read() is None
