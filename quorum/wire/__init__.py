"""The quorum's messages to and from Kafka's protocol. Pure.

fetch     Fetch and FetchSnapshot of the metadata log, to and from the wire
messages  The quorum's messages to and from the wire
"""
