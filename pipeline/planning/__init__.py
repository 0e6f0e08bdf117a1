"""What a query reads, decided in the driver.

driver          opens the stores and the brokers for one plan.
catalog         lists the segments of the wanted partitions, and keeps the list.
table           joins the tier with the brokers' tail into one table.
tier_splits     turns wanted offsets into splits, from indexes alone.
proven_indexes  fetches the indexes that a plan relies on, as far as the log confirms them.
packing         packs splits into tasks.
stream_offsets  decides how far the next micro-batch goes.
"""
