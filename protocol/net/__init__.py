"""Connections: clients, listeners, their limits, and dispatch to handlers.

client             Connections to brokers by address, dialled when needed and shared; see `client_connection` for
client_connection  One connection to a broker
dispatch           What a request handler gets and gives, and the answer to ApiVersions
server             A listener
server_connection  One accepted connection
server_limits      What one listener allows its connections; the table is in `server`
service            What starts and stops as one: a broker, a controller, a replica of the quorum
stream             What both ends of a connection share
turns              Turns
"""
