"""What is done to a running cluster beside its faults: a grammar of actions, a row each, drawn by weight.

grammar     `Row`, and `Operations`, which does the actions of a schedule, and names those that it draws.
rows        `ROWS` are the rows of clusters: a new feature adds one.
share_offsets  `ShareOffsets` sets and deletes where a share group without members begins.
side_loads  `SideLoads` sends to side topics, whatever becomes of them meanwhile, and looks offsets up by time.
tables      `Tables` writes a compacted topic, of which every key keeps its last value.
voters      `VOTER_ROWS` are the rows of quorums, `VoterOperator` does them.
"""
