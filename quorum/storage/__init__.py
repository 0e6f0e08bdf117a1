"""What a replica of the quorum keeps on disk: log, snapshots, votes, and how they are formatted and recovered.

control_batches  Between the core's values and the log's bytes
election_file    `quorum-state`
formatting       Makes log directories a node's
metadata_log     The metadata log on disk
recovery         What a replica knows when it starts
snapshot_file    A snapshot's file
snapshots        The snapshots in the directory of one metadata log
unproven_voter   `unproven-voter`
vote_keeper      The one task that writes `quorum-state` and the mark beside it, in the core's order
"""
