"""What becomes of a replica whose local log is damaged: it is opened again, or put aside and fetched again.

A log is damaged where recovery rejects it (`CorruptLogError`): bytes that had been flushed are not what they were.

    damaged --+-- somebody counts on it --> refused; looked at again every `LOOK_AGAIN_S`: a file may be restored, or a
              |                             disk read it well again --> opened
              +-- it is spare ------------> moved to `-stray` with every byte --> a new, empty replica, which begins as
                                            any newcomer does: in the tier, where the tier holds what came before

| somebody counts on it                                 | until                                                      |
|-------------------------------------------------------|------------------------------------------------------------|
| it is in the ISR: the last member may be the only one | it has left it; the last member leaves only by an election |
|   that has what was acknowledged                      | that an operator asks for (unclean)                        |
| nobody leads: nobody is there to fetch from, and an   | another replica leads                                      |
|   operator may want this one to lead                  |                                                            |
| this process has led or fetched with it under the     | the next leader epoch, or the next start of this broker    |
|   present leader epoch: an ISR with it in it may be   |                                                            |
|   on its way to the controller                        |                                                            |

Invariant: a replica that is put aside is in no ISR, and comes into none before it was fetched again. A process that has
just started is in no ISR but as its last member, for its registration took it out; whatever is still asked for on
behalf of the process before names that one's broker epoch, and is refused. So is, by its leader epoch, what the leader
of an earlier epoch asks for. A broker that led with the log gives up its leadership first (`ReplicaManager`).

| the process dies                 | the next one finds                                                      |
|----------------------------------|-------------------------------------------------------------------------|
| before the directory was moved   | the damaged log, and does all this                                      |
| after that                       | no log: an empty one is made, as for any replica that is assigned to it |
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from ...log.keeper import LogManager, damage_of, put_damaged_aside
from ...protocol import KafkaError, TopicPartition
from ..cluster.view import NO_LEADER, PartitionRegistration

LOOK_AGAIN_S: Final = 30.0
"""What was not flushed is read and checked each time."""


class DamagedLogs:
    """The damaged logs of broker `node_id`."""

    def __init__(self, logs: LogManager, node_id: int) -> None:
        self._logs = logs
        self._node_id = node_id
        self._looked_at_s: dict[TopicPartition, float] = {}
        """When each was last opened without success, on the loop's clock."""

    async def is_to_reopen(
        self, name: TopicPartition, registrations: Iterable[PartitionRegistration], counted_on_epoch: int
    ) -> bool:
        """Return True if the damaged log is to be opened once more, False once it was put aside. Raise KafkaError while
        it must be left as it is, and OSError.

        `registrations`: the one that the new replica will act upon, under which it may be the leader, and the present
        one, of which it may be a candidate. `counted_on_epoch`: as for `is_spare`.
        """
        damage = damage_of(self._logs, name)
        assert damage is not None, name
        if all(is_spare(registration, self._node_id, counted_on_epoch) for registration in registrations):
            # Moved, not deleted: an operator can still recover records from it by hand.
            await put_damaged_aside(self._logs, name)
            self._looked_at_s.pop(name, None)
            return False
        now = asyncio.get_running_loop().time()
        if now - self._looked_at_s.setdefault(name, now) < LOOK_AGAIN_S:
            raise KafkaError(damage.code, damage.message)
        self._looked_at_s[name] = now
        return True


def is_spare(registration: PartitionRegistration, node_id: int, counted_on_epoch: int) -> bool:
    """Return whether no other replica or operator counts on the replica of `node_id` (see the module's table), and
    another broker leads. `counted_on_epoch`: the newest leader epoch under which this process has served or fetched
    with the log, -1 if it never did.
    """
    return (
        node_id not in registration.isr
        and registration.leader not in (node_id, NO_LEADER)
        and registration.leader_epoch > counted_on_epoch
    )
