"""The KRaft controller: it decides what the metadata log records.

core/        decides: requests and the time in, records and responses out. Begin with `core/machine.py`.
image/       is the state of the cluster that the records add up to.
records/     declares Kafka's metadata records and encodes them.
node         runs the core on a replica of the quorum's log while that replica leads.
service      is a controller process below its command: replica, listener, controller.
snapshotter  decides when to cut a snapshot of the image, and cuts it.
prober       looks whether a broker's process is there.
reachability decides what such a look shows.
envelope     unwraps requests that a broker forwards for a client (KIP-590).
"""
