"""A real cluster in the process of a test: product code, each node in a thread with an event loop of its own.

local_cluster  is what a test has in hand: topics, records, faults, waits. Begin here.
configs        chooses the configuration of the nodes.
clients        makes clients of other libraries.
node           runs one node in a thread: start, pause, stop, kill.
network        is an event loop whose network can be cut.
disk           is a disk that can fail.
storage        is a tier that can be slow or away.
moto           is a bucket at moto's S3 server.
operator       asks the cluster what a test wants as a client.
"""
