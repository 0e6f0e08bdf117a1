"""Requests and responses of Kafka's protocol: one class for each message, whatever its version.

base           declares what all messages have in common.
versions       upgrades old forms of a message when read, and lowers them when written.
needed_fields  names the request fields that no older version may leave out.
errors         declares where responses say that something failed.
registry       finds the message classes of an API, and imports them on demand.
generate       writes the modules below, and `registry`, from kio's schemas.
topics         holds the messages about topics: create, grow, delete, reassign, elect.
configs        holds the messages about dynamic configs.
cluster        holds what clients ask about the cluster as a whole.
brokers        holds what brokers report to the controllers.
quorum         holds the messages of the KRaft quorum.
groups         holds the messages of consumer groups.
offsets        holds the messages about offsets of logs and of groups.
quotas         holds the messages about quotas of clients.
security       holds the messages of authentication, and about users' credentials.
producers      holds the messages about producer ids and transaction markers.
"""
