"""Remote segments as values, and the ledger that says which of them exist and hold an offset. Pure.

byte_lru     A bounded map that forgets what was used least lately; the bound is in bytes, as the caller counts
epoch_index  The readable segments of one leader epoch, and which of them holds an offset
findings     What may be wrong with a tier, as values. `remote.audit` has the table of what each kind means
ledger       The ledger of one partition's remote segments
lineage      Which remote segments belong to this leader's history, how far they reach, and what the leader says
offset_runs  Sets of offsets as runs without a gap
records      Kafka's `__remote_log_metadata` records
segment      Remote log segments as values (KIP-405): identity, metadata events, states
"""
