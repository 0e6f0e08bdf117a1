"""From offsets to bytes, and from bytes to Arrow columns. Pure.

offset_cover     chooses the bytes of segments that hold each wanted offset exactly once.
pruning          skips partitions, offsets and batches that a query's filters exclude.
batch_table      holds the headers of many batches as columns.
decode           decodes batches to Arrow columns, many at a time.
varints          decodes zigzag varints at many positions at once.
arrow_batches    builds the rows of a split as Arrow batches.
unlisted_aborts  finds aborted transactions when a segment's index is lost.
"""
