"""Moves replicas between the log directories of this broker while they serve (AlterReplicaLogDirs, KIP-113, KIP-858).

A move is a task; `log/keeper/future_logs.py` has the steps and what a crash in each leaves. Its states:

| state     | what holds                                        | left by                                              |
|-----------|---------------------------------------------------|------------------------------------------------------|
| WAITING   | no future log: enough moves are under way, or the | the future log is created: COPYING                   |
|           | image still has the replica in the destination    |                                                      |
| COPYING   | the future log follows, at the configured rate    | it has caught up, and has taken the history of what  |
|           |                                                   | is below it: PROMISED                                |
| PROMISED  | the destination is reported; what is not in the   | the image has the destination: SWITCHED              |
|           | future log counts as not stored                   | the future log must restart, or a log fails:         |
|           |                                                   | WITHDRAWN                                            |
| WITHDRAWN | the current directory is reported; the same       | the image has the destination no longer: COPYING     |
| SWITCHED  | the future log is the log, the old one is deleted | -                                                    |
| STALLED   | no future log, no turn is taken: the destination  | the pause is over: WAITING                           |
|           | has no room, or the copy failed                   |                                                      |

Invariant: whatever directory the controller has for the replica, it has every acknowledged record:
`log/replica/takeover.py` holds the rest back. So a future log is created, restarted or dropped only while the image
does not name its directory.

| failure | effect |
|---|---|
| the destination has less room than the log and its reserve | STALLED, before anything is copied |
| the destination refuses produce for want of room, while COPYING | the future log is dropped, which frees it: STALLED |
| the future log fails, its disk fails a call | the future log is dropped: STALLED; the current log is as it was |
| the destination goes offline, as a disk that hangs does | the move ends, the current log is as it was |
| the current log fails | the move waits until it is open again |
| its directory goes offline | the move ends, the future log stays: the next start continues it |
| another destination is requested, or the current directory | the future log is dropped; then the new move begins |

The pause of STALLED doubles from `RETRY_S_MIN` to `RETRY_S_MAX`: a copy that fails at its end costs the whole log each
time. A reason is logged once, as a warning, until it is another one. A copy never takes the room that clients' records
and the broker's own files need (`log/core/free_space.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field
from typing import Final

from ...light_dataclass import dataclass
from ...log import PartitionLog
from ...log.core import Restart, future_directory
from ...log.keeper import LogDirectory, LogManager, advance, create_future, drop_future, pending_step, switch
from ...protocol import OUTSIDE, ErrorCode, KafkaError, TopicIdPartition, TopicPartition, describe_error
from ..cluster.view import PartitionRegistration
from ..core.move_throttle import MoveThrottle
from .hosted_partitions import HostedPartitions
from .replica_directories import ReplicaDirectories

LOOK_AGAIN_S: Final = 0.1
"""The time in s after which a move that waits looks again; what it mostly waits for wakes it earlier."""
RETRY_S_MIN: Final = 1.0
RETRY_S_MAX: Final = 300.0
MIN_UNIQUE: Final = "0" * 32

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Move:
    """One move; `destination` changes if another one is requested meanwhile."""

    key: TopicIdPartition
    destination: LogDirectory
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    stalls: int = 0
    """How often it stalled in a row, for one destination."""
    reason: str | None = None
    """Why it stalled last, as it was logged."""
    is_resting: bool = False

    @property
    def pause_s(self) -> float:
        return min(RETRY_S_MAX, RETRY_S_MIN * 2.0 ** min(self.stalls - 1, 30))


class _NoRoomError(KafkaError):
    """The destination has too little room; what is in the message changes with each look."""


class DirectoryMoves:
    """The moves of broker `node_id`; they promise and report in `directories` where its replicas will be.
    `bytes_per_second` returns the present limit of all of them together.
    """

    def __init__(
        self,
        hosted: HostedPartitions,
        logs: LogManager,
        directories: ReplicaDirectories,
        node_id: int,
        *,
        moves_max: int,
        bytes_per_second: Callable[[], int],
    ) -> None:
        self.directories = directories
        self.failed = 0
        """The number of moves that ended without success since the start."""
        self._hosted = hosted
        self._logs = logs
        self._node_id = node_id
        self._slots = asyncio.Semaphore(moves_max)
        self._throttle = MoveThrottle(bytes_per_second)
        self._moves: dict[TopicPartition, _Move] = {}

    @property
    def stalled(self) -> int:
        """The number of moves that wait for room in their destination, or to be tried again."""
        return sum(move.is_resting for move in self._moves.values())

    @property
    def count(self) -> int:
        """The number of moves that wait or are under way."""
        return len(self._moves)

    def resume(self) -> None:
        """Continue the moves that the process before has left."""
        for partition in list(self._hosted.partitions.values()):
            found = self._logs.future_of(partition.partition.topic_partition)
            if found is not None:
                self._begin(partition.partition, found[0])

    def on_image(self) -> None:
        """The image has changed: a move may wait for that."""
        for move in self._moves.values():
            move.changed.set()

    def request(self, name: TopicPartition, path: str) -> None:
        """Begin to move a replica to the log directory of that path. KafkaError as Apache Kafka's broker has it."""
        destination = self._destination(name, path)
        partition = self._hosted.partitions.get(name)
        if partition is None:
            if name in self._hosted.failures:
                raise KafkaError(ErrorCode.kafka_storage_error, f"{name} is offline: {self._hosted.failures[name]}")
            self._logs.prefer(name, destination)
            if self._hosted.image.partition(name) is None:
                raise KafkaError(ErrorCode.unknown_topic_or_partition, f"there is no partition {name}")
            raise KafkaError(ErrorCode.replica_not_available, f"{name} is not on this broker, or not yet set up")
        move = self._moves.get(name)
        if move is not None:
            if move.destination is not destination:
                move.stalls, move.reason = 0, None
            move.destination = destination
            move.changed.set()
            return
        if name in destination.logs:
            return
        offline = [str(directory.path) for directory in self._logs.directories if directory.offline is not None]
        if offline:
            # One of them may have a future log of the partition: there must never be two.
            raise KafkaError(
                ErrorCode.kafka_storage_error, f"{name} is not moved while {', '.join(offline)} is offline"
            )
        self._begin(partition.partition, destination)

    async def stop(self, name: TopicPartition) -> None:
        """Stop the move of a partition whose log is about to be deleted or closed. The future log stays."""
        move = self._moves.pop(name, None)
        if move is not None and move.task is not None:
            move.task.cancel()
            await asyncio.gather(move.task, return_exceptions=True)
            self.directories.promised.pop(move.key, None)

    async def close(self) -> None:
        """Stop all moves; the next start continues them."""
        for name in list(self._moves):
            await self.stop(name)

    def _destination(self, name: TopicPartition, path: str) -> LogDirectory:
        for directory in self._logs.directories:
            if path in (str(directory.path), str(directory.path.absolute())):
                break
        else:
            raise KafkaError(ErrorCode.log_dir_not_found, f"{path} is not in log.dirs of broker {self._node_id}")
        try:
            future_directory(directory.path / str(name), MIN_UNIQUE)
        except ValueError as error:
            raise KafkaError(ErrorCode.invalid_topic_exception, str(error)) from error
        if directory.offline is not None:
            raise directory.offline_error()
        return directory

    def _begin(self, key: TopicIdPartition, destination: LogDirectory) -> None:
        move = self._moves[key.topic_partition] = _Move(key, destination)
        move.task = asyncio.create_task(self._run(move), name=f"move-{key.topic_partition}")

    # One move.

    async def _run(self, move: _Move) -> None:
        name = move.key.topic_partition
        try:
            while not await self._attempt(move):
                await self._rest(move)
        except OUTSIDE as error:
            self.failed += 1
            _log.error(
                "%s is not moved to %s, and stays where it is; check the disk, then request the move again: %s",
                name,
                move.destination.path,
                describe_error(error),
            )
            await self._give_up(move)
        except Exception:  # noqa: BLE001 - the supervisor of this move
            self.failed += 1
            _log.exception("internal error in the move of %s to %s: it ends", name, move.destination.path)
            await self._give_up(move)
        finally:
            if self._moves.get(name) is move:
                del self._moves[name]

    async def _attempt(self, move: _Move) -> bool:
        """Take turns until the move is complete; return False if it has stalled. Raise what ends the move."""
        try:
            async with self._slots:
                while not await self._turn(move):
                    pass
        except OUTSIDE as error:
            if not self._can_be_tried_again(move):
                raise
            self._note_stall(move, error)
            await self._give_up(move)
            return False
        return True

    def _can_be_tried_again(self, move: _Move) -> bool:
        """Return whether destination and current directory are both online."""
        return move.destination.offline is None and any(
            move.key.topic_partition in {*directory.logs, *directory.failures}
            for directory in self._logs.directories
            if directory.offline is None
        )

    def _note_stall(self, move: _Move, error: Exception) -> None:
        """Count it, and warn once about each reason."""
        has_no_room = isinstance(error, _NoRoomError)
        self.failed += not has_no_room
        move.stalls += 1
        reason = "room" if has_no_room else describe_error(error)
        if reason != move.reason:
            move.reason = reason
            _log.warning(
                "%s stays where it is, its move to %s is tried again in %.0f s, later up to %.0f s, until another move"
                " is requested: %s",
                move.key.topic_partition,
                move.destination.path,
                move.pause_s,
                RETRY_S_MAX,
                describe_error(error),
            )

    async def _rest(self, move: _Move) -> None:
        """Wait out the pause, or until another destination is requested."""
        destination, loop = move.destination, asyncio.get_running_loop()
        until_s, move.is_resting = loop.time() + move.pause_s, True
        while move.destination is destination and (left_s := until_s - loop.time()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await move.changed.wait()
            move.changed.clear()
        move.is_resting = False

    async def _turn(self, move: _Move) -> bool:
        """Make one step; return whether the move is complete."""
        name = move.key.topic_partition
        current = self._current(move)
        if current is None:
            self.directories.promised.pop(move.key, None)
            await self._wait(move)
            return False
        found = self._logs.future_of(name)
        if found is not None and found[0] is not move.destination:
            await self._withdraw(move, found[0])
            await drop_future(self._logs, name)
            return False
        if name in move.destination.logs:
            return True
        if move.destination.offline is not None or (found is not None and found[1].state.failure is not None):
            reason = move.destination.offline or f"the future log has failed: {found and found[1].state.failure}"
            raise KafkaError(ErrorCode.kafka_storage_error, reason)
        if found is None:
            if self._is_named(move, move.destination):
                self._report(move)
                await self._wait(move)
                return False
            await move.destination.measure_space()
            _check_room(move, needed_bytes=current.state.segments.size_bytes + move.destination.free_space.resume_bytes)
            future = await create_future(self._logs, name, move.destination)
            self._throttle.copied(future.state.segments.size_bytes)
            _log.info("%s is being moved from %s to %s", name, current.state.directory.parent, move.destination.path)
            return False
        return await self._follow(move, current, found[1])

    async def _follow(self, move: _Move, current: PartitionLog, future: PartitionLog) -> bool:
        destination = move.destination
        is_held = move.key in self.directories.promised or self._is_named(move, move.destination)
        if is_held:
            current.hold_at(future.state.offsets.settled_end_offset)
            if isinstance(pending_step(current, future), Restart):
                await self._withdraw(move, move.destination)
        else:
            current.hold_at(None)
        if not is_held and not move.destination.accepts_clients:
            _check_room(move, needed_bytes=move.destination.free_space.resume_bytes)
        if not is_held and not self._throttle.may_copy(asyncio.get_running_loop().time()):
            await self._wait(move)
            return False
        copied_bytes = await advance(current, future)
        if is_held:
            current.hold_at(future.state.offsets.settled_end_offset)
        if copied_bytes is not None:
            self._throttle.copied(copied_bytes)
            with move.destination.writing(copied_bytes):
                pass  # counted when it is known how much it is: one turn at most is copied beyond the mark
            # The disk may answer at once: other tasks run between two steps in any case.
            await asyncio.sleep(0)
            return False
        if move.destination is not destination:
            return False  # another one was requested meanwhile: the future log is not there
        if not await self._is_promised(move, current, future):
            return False
        if self._is_counted_there(move) and await switch(self._logs, move.key.topic_partition):
            _log.info("%s was moved to %s", move.key.topic_partition, destination.path)
            self.directories.promised.pop(move.key, None)
            return move.destination is destination  # else it was requested meanwhile, and begins now
        await self._wait_for_records(move, current)
        return False

    async def _is_promised(self, move: _Move, current: PartitionLog, future: PartitionLog) -> bool:
        """Have the controller count on the destination, now that the future log has everything; False if it first had
        to wait for the disk: a log that is produced to has grown by then.
        """
        if not future.has_history(current):
            await future.take_history(current)
            return False
        if move.key not in self.directories.promised:
            # The hold comes first: the controller may count on the destination before the report is answered.
            current.hold_at(future.state.offsets.settled_end_offset)
            self.directories.promised[move.key] = move.destination.directory_id
            self._report(move)
        return True

    async def _give_up(self, move: _Move) -> None:
        """Drop the future log, unless the directory of the current log is offline: then it may be of use."""
        name = move.key.topic_partition
        # Another destination may have been requested since, or the current directory.
        found = self._logs.future_of(name)
        directory = move.destination if found is None else found[0]
        try:
            if any(name in each.logs for each in self._logs.directories if each is not directory):
                await self._withdraw(move, directory)
                await drop_future(self._logs, name)
        except OUTSIDE as error:
            _log.warning("%s: the copy in %s is left for the next start: %s", name, directory.path, error)

    async def _withdraw(self, move: _Move, destination: LogDirectory) -> None:
        """Report the current directory again, and hold until the image no longer has the replica in `destination`."""
        self.directories.promised.pop(move.key, None)
        while self._is_named(move, destination) and self._is_hosted(move):
            self._report(move)
            await self._wait(move)
        with suppress(KafkaError):
            log = self._logs.get(move.key.topic_partition)
            if log is not None:
                log.hold_at(None)

    # What it goes by.

    def _current(self, move: _Move) -> PartitionLog | None:
        """Return the open log; None while it is failed. KAFKA_STORAGE_ERROR if its directory is offline."""
        name = move.key.topic_partition
        for directory in self._logs.directories:
            if name in directory.logs:
                log = directory.logs[name]
                return (
                    log if log.state.failure is None and log.state.log_start_known and self._is_hosted(move) else None
                )
            if name in directory.failures and directory.offline is not None:
                raise directory.offline_error()
        return None

    def _is_hosted(self, move: _Move) -> bool:
        partition = self._hosted.partitions.get(move.key.topic_partition)
        return partition is not None and partition.partition == move.key

    def _registration(self, move: _Move) -> PartitionRegistration | None:
        return self._hosted.image.partition(move.key.topic_partition)

    def _is_named(self, move: _Move, directory: LogDirectory) -> bool:
        """Return whether the image has the replica in `directory`."""
        registration = self._registration(move)
        return registration is not None and registration.directory_of(self._node_id) == directory.directory_id

    def _is_counted_there(self, move: _Move) -> bool:
        """Return whether the controller knows the destination, or knows no directories at all."""
        registration = self._registration(move)
        return registration is not None and (not registration.directories or self._is_named(move, move.destination))

    def _report(self, move: _Move) -> None:
        registration = self._registration(move)
        if registration is not None and self._is_hosted(move):
            self.directories.report_in_use(move.key, registration)

    # Waiting.

    async def _wait(self, move: _Move) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_AGAIN_S):
                await move.changed.wait()
        move.changed.clear()

    async def _wait_for_records(self, move: _Move, current: PartitionLog) -> None:
        """Wait until the log has changed, or the image."""
        current.state.listeners.append(move.changed.set)
        try:
            await self._wait(move)
        finally:
            current.state.listeners.remove(move.changed.set)


def _check_room(move: _Move, *, needed_bytes: int) -> None:
    """Raise if the destination had less room when it was last measured."""
    usable_bytes = move.destination.free_space.usable_bytes
    if usable_bytes is not None and usable_bytes < needed_bytes:
        raise _NoRoomError(
            ErrorCode.kafka_storage_error,
            f"{move.destination.path} has {usable_bytes} bytes free and {needed_bytes} are needed, of which"
            f" {move.destination.free_space.resume_bytes} stay free: free space there, or lower the topic's retention",
        )
