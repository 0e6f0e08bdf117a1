"""Share groups at the leaders of partitions (KIP-932): who is given which records, and what becomes of them.

core/        decides: the state of each record, acknowledgements, sessions.
"""
