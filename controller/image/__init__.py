"""The image of the cluster that the metadata log describes, and what is derived from it. Pure.

image          is the state of the whole cluster; only `replay(record)` changes it.
registrations  declares the values in it: a partition, a topic, a broker, a controller.
client_quotas  holds the quotas of clients, and finds the one that holds for a client.
indexes        finds the partitions that an event concerns without walking all of them.
delta          collects what changed since the last look.
snapshot       turns an image into records that replay into an equal image.
"""
