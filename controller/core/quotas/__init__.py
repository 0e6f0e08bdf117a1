"""Decisions about the quotas of clients.

alter      decides AlterClientQuotas.
describe   answers DescribeClientQuotas from the image.
mutations  limits how fast clients change topics (KIP-599).
"""
