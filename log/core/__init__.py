"""The formats and rules of a local log. Pure.

file_names         builds and parses the names of files and directories, which are Kafka's.
listing            classifies the files of a partition's directory.
validation         checks bytes before a leader appends them as a batch.
epochs             caches at which offset each leader epoch began (KIP-101, KIP-279).
producers          tracks all producers of a log: duplicates, open transactions, last stable offset (KIP-98).
producer_state     judges the next batch of one producer (KIP-98, KIP-890).
producer_snapshot  encodes and decodes the `.snapshot` files.
index              encodes and searches the offset, time and transaction indexes.
segment_indexes    grows the offset and time index of a segment entry by entry.
recent_batches     remembers where the last batches of the active segment lie.
replica_copy       decides how a future log follows the log that it will replace (KIP-113).
retention          decides which local segments may be deleted.
free_space         decides when clients' records are refused for want of room.
checkpoints        encodes and decodes the checkpoint files of a log directory.
config             holds a topic's configuration: Kafka's names, units, defaults, limits.
properties         reads a node's `.properties` file into pydantic models.
errors             declares the error of a damaged file.
"""
