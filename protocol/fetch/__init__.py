"""Fetch requests and responses as values, and their incremental sessions (KIP-227). Pure.

arrival          A Fetch response while it arrives
leader_sessions  Fetch sessions at their leader (KIP-227)
messages         Fetch requests and responses as version-independent values. What a version lacks has its default
session          Incremental fetch sessions (KIP-227), without I/O
wire             Fetch requests and responses, versions 4-18, as one version-independent value each
"""
