"""What a replica of the quorum keeps on disk, and how that is formatted and recovered.

metadata_log     is `__cluster_metadata-0`: a log with its snapshots.
snapshots        cuts, fetches, serves and removes snapshots.
snapshot_file    writes and checks one snapshot file (KIP-630).
control_batches  converts the core's values to batches and back.
election_file    reads and writes `quorum-state`.
vote_keeper      is the one task that writes `quorum-state` and the mark of an unproven voter.
recovery         puts together what a replica knows at its start.
bootstrap_file   reads and writes the records that a new cluster begins with.
formatting       formats log directories, as Kafka's storage tool does.
"""
