"""Decides what becomes of transactions: pure, without a log, a clock or a network.

states       the states of a transaction, the value that is durable, and which state may follow which.
events       what happens to one transactional id, and what its machine has done.
records      the records of `__transaction_state` in Kafka's format.
transaction  one transactional id as a state machine: `step(event, now_ms) -> effects`.
endings      EndTxn: which end is valid, a retry, or fenced (KIP-98, KIP-890).
memory       limits what transactional ids take.
shard        the transactional ids of one partition of `__transaction_state`.
"""
