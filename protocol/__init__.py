"""Bytes <-> values: Kafka requests and responses (kio), record batches v2, error codes, request framing.

Knows no roles (leader, follower, controller) and no files. Everything is pure except `server` and `client`.
"""
