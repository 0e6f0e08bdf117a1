"""The coordinator of transactions: who may write in one, and how it ends, on every partition or on none.

core/   decides: one transactional id as a state machine, and those of one partition of `__transaction_state`.
"""
