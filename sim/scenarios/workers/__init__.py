"""Workers: processes that consume, transform and produce, as members of a group and under transactional ids.

coordinators   `CoordinatorClient` sends requests to the coordinator of a group, or of a transactional id.
consumers      `ConsumerMember` is one membership in the consumer protocol (KIP-848): the coordinator assigns.
members        `GroupMember` is one membership: it joins, is assigned partitions, sends heartbeats, commits offsets.
transactions   `TransactionalProducer` is one transactional id: batches and offsets, committed or aborted as one.
worker         `Worker` is one process: it reads what it is assigned, and what it commits it has done.
workforce      `Workforce` starts workers, kills them, has others take their place, and says in the end what is wrong.
"""
