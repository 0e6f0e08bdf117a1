"""Observers of what runs, and judges of what they observe. The pure judges are in `core`.

broker_losses    `LossJudge` decides which records a crash, a wipe or an unclean election allows to be lost.
directory_moves  `DirectoryMovesJudge` checks moves between log directories; `LogPlaces` says where each log is.
durability       `DurableLogs` reads what of a log is on a machine's disk, whatever its process believes.
final_state      It takes brokers, files and store apart into the values that `core.replicas` judges at the end.
joined_batches   `JoinedBatchesJudge` checks that a replica that joins an ISR has its leader's bytes.
observer         `ReplicaObserver` looks at the brokers after every event and publishes what has changed.
quorum_replicas  `QuorumJudge` looks at the replicas of a quorum after every event: votes, commits, one log.
retention        `RetentionJudge` checks that retention takes what it may, and nothing else.
tiering          `TieringJudge` checks that closed segments go to the tier in time, faults or not.
"""
