"""What an operator is shown once everything is at rest, and what is done then at last.

final_looks      `FinalLooks` asks what operators ask, changes what they change last, and compares each answer.
more_looks       `more_looks` makes those that need more of the world than its metadata.
many_partitions  `ManyPartitions` writes to, and reads from, all partitions of a leader at once.
copies           `Copies` reads the tier without a broker, and follows a partition into a directory.
own_log          `OwnLog` appends to a log of its own, and loses its power.
controllers      `ControllersLook` asks controllers for configs, and for what only the active one may do.
mistakes         `Mistakes` asks for what cannot be.
acls             It has the one ACL that is created.
upgraded_groups  `UpgradedGroups` takes a group from the classic protocol to KIP-848, and back.
ledger_snapshots  `LedgerSnapshots` has brokers cut a snapshot of their ledgers, and one begin with it.
"""
