"""What a query reads, decided in the driver: catalogue, splits of the tier, tail at the brokers, tasks.

catalog         What the stores hold of the wanted partitions, kept from one look to the next
driver          Planning in the driver
packing         Splits into tasks
stream_offsets  Where a stream stands in each partition, and how far its next batch goes. Pure
table           The whole of a topic as one table
tier_splits     From wanted offsets to splits, by asking the stores for indexes. No broker is asked
"""
