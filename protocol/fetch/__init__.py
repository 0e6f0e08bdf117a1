"""Fetch requests and responses as values, and their incremental sessions (KIP-227). Pure.

messages         declares requests and responses, independent of their version.
wire             encodes and decodes them, versions 4-18.
session          is a follower's half of a fetch session.
leader_sessions  is the leader's half: what it remembers of each fetcher.
arrival          yields each partition's answer while the response is still arriving.
"""
