"""tierfetch: Kafka-compatible replication over tiered storage.

One import package; its subpackages are the repository's top-level folders. `docs/ARCHITECTURE.md` says what each may
know, and `lint-imports` holds them to it. In a reader's order:

pages       frames the HTML pages that commands write: tables and charts.
security    says who the other end of a connection is: principals, SASL mechanisms, TLS contexts.
protocol    turns bytes into values and back, and holds connections, clients and servers.
log         is one replica's local log: segments, indexes, recovery, compaction.
remote      says what a remote segment is, and declares the two ports that a plugin implements.
fetcher     keeps a follower up with its leader, and begins an empty one from the tier.
rlm         copies segments to the tier, expires them there, and trims the local log.
quorum      is KRaft: one replicated log with elected leaders.
controller  decides what the metadata log records: brokers, topics, leaders, ISR, reassignments.
broker      wires all of it together into a node that serves Kafka's protocol.
plugins     store segments in one product each: a directory, S3, any fsspec URL.
planning    decides which replicas move where, and what to do next while they move.
model       predicts how long replacement, rebalance and failover take.
pipeline    reads the tier as a Spark table.
sim         runs the production code on virtual time, under faults, and judges it.
console     shows a cluster as a web page.
testing     runs a cluster in the process of a test, and holds the conformance suites that a plugin author runs.
cli         is the `tierfetch` command.

Five of its modules stand above no folder: `byte_text` formats quantities of bytes, `errors` declares the families of
errors, `doors` imports what a folder exports when it is asked for, `light_dataclass` makes dataclasses that cost little
until they are used, `limited_log` limits the lines that peers cause.
"""

__version__ = "0.1.0.dev0"
