"""What an operator is shown once everything is at rest, and what is done then at last.

final_looks      `FinalLooks` has all looks in their order, and looks again at what is wrong at first. Begin here.
asker            `Asker` is the client that most looks share.
states           `States` are what brokers say that they, and the cluster, are.
changes          `Changes` are what operators change last: quotas, credentials, ACLs.
coordinated      `Coordinated` are groups and transactional ids, which are listed, described and deleted, or expire.
node_pages       It asks for `/metrics`, `/health` and `/ready`.
more_looks       `more_looks` makes those that need more of the world than its metadata.
many_partitions  `ManyPartitions` writes to, and reads from, all partitions of a leader at once.
copies           `Copies` reads the tier without a broker, and follows a partition into a directory.
own_log          `OwnLog` appends to a log of its own, and loses its power.
controllers      `ControllersLook` asks controllers for configs, and for what only the active one may do.
mistakes         `Mistakes` asks for what must be refused.
acls             It has the one ACL that is created, and the filter that finds it.
upgraded_groups  `UpgradedGroups` takes a group from the classic protocol to KIP-848, and back.
group_members    It has the members of that group, one of each protocol.
ledger_snapshots `LedgerSnapshots` has brokers cut a snapshot of their ledgers, and one begin with it.
"""
