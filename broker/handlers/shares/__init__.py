"""What is asked about share groups (KIP-932).

groups  answers ShareGroupHeartbeat, ShareGroupDescribe, and what is asked about their offsets.
state   answers what brokers ask of a share coordinator.
"""
