"""Members of a share group (KIP-932), under faults of their own.

member   `ShareMember` is one process: heartbeats, sessions with the leaders of its partitions, acknowledgements.
sharers  `Sharers` has members take places one after the other, feeds them, and says in the end what is wrong.
"""
