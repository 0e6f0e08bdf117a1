"""One segment's files, the list of a log's segments, and the pieces of them that readers hold.

batch_scan      Walks over the batches of a `.log` file through the `Disk` port
held_slices     The slices that readers hold of one segment, and a truncation that waits for them to be let go
index_files     Reads, makes anew and writes the `.index` and `.timeindex` files of one segment
open_limit      How many closed segments of one node keep their file open and their indexes in memory: a bounded
scan            Scans one segment after a crash
segment         One segment
segment_list    The segments of one log in the order of their base offsets; the last one is the active one
slices          A piece of one segment's `.log` that a reader is about to send or read, and its hold on the
snapshot_files  The `<offset>.snapshot` files of one log: the producer state at that offset
swap            Puts a cleaned segment in the place of those it was made from
upload_source   What the remote log manager uploads of a segment
"""
