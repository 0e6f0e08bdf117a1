"""Share groups at the leaders of partitions (KIP-932): who is given which records, and what becomes of them.

core/        decides: the state of each record, acknowledgements, sessions.
settings     the configuration of a group, and the bounds of the broker.
persister    is the port to what keeps the state of share groups.
coordinated  is the port's end at the share coordinators.
live         is one share-partition at work: loading, writing, locks.
partitions   has those of all groups and led partitions of this broker, and the sessions.
reading      finds the batches in what was read of the log.
fetching     reads and acquires for one ShareFetch, and waits until there is something.
handlers     answers ShareFetch and ShareAcknowledge.
metrics      counts, and reports.
parts        composes them.
"""
