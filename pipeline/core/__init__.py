"""From offsets to bytes, and from bytes to Arrow columns. Pure.

arrow_batches    The rows of a split as Arrow batches
batch_table      The headers of many record batches as columns, so that batches are chosen without a look at
decode           Record batches to Arrow columns, many batches at a time
offset_cover     Which bytes of which segments give each wanted offset once. Pure
pruning          What a query's filters spare the reading of: whole partitions, offsets, batches. Pure
unlisted_aborts  What was aborted although no transaction index says so: the segment's index was lost
varints          Zigzag varints at many positions at once
"""
