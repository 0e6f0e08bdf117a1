"""The quorum's messages to and from Kafka's protocol. Pure.

messages  maps votes, epochs and voter changes.
fetch     maps Fetch and FetchSnapshot of the metadata log.
"""
