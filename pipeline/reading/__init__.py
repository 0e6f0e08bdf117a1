"""Read one split in an executor.

splits      reads a split's bytes and yields Arrow batches.
tail        reads what only the brokers have.
read_ahead  fetches and decodes the next batches while the JVM takes the last ones.
skipped     reports what could not be read and was skipped.
"""
