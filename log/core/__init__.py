"""The formats and rules of a local log: checkpoints, indexes, epochs, producers, retention. Pure.

checkpoints        The small text files of a log directory, as Kafka writes them
config             The configuration of one log
epochs             The leader epochs of one replica's log
errors             The error of a file in a log directory, or a copy of one in the tier, that is not what its
file_names         Names of the files and directories of a log
index              The three indexes of a segment, as Kafka lays them out, held as bytes in memory. All integers
listing            What lies in a partition's directory, by what it is. Pure
producer_snapshot  The `.snapshot` files
producer_state     What a log remembers of one producer, and the rules by which its next batch is judged (KIP-98
producers          All producers of one log
properties         A node's `.properties` file
recent_batches     Where the last batches of an active segment lie, so that readers at the log's end need no look
retention          Which segments of a log may go, from the oldest on. Pure: it decides, the log does
segment_indexes    The offset and the time index of one segment as they grow with it, entry for entry as Kafka
validation         What a leader demands of bytes before they become a batch of its log. Pure
"""
