"""Connections: clients, listeners, their limits, and dispatch to handlers.

dispatch           declares what a handler gets and returns.
server             is a listener: it accepts, limits and ends connections.
server_limits      declares the limits of one listener.
tls_acceptor       is the TLS handshake of an accepted connection.
gates              say which requests a connection may send, and as which principal.
sasl               answers SaslHandshake and SaslAuthenticate.
server_connection  is one accepted connection: requests in, responses out in the same order.
client             keeps connections to brokers by address, shared by their users.
client_connection  is one connection to a broker: many requests in flight, each with a deadline.
stream             holds what both ends of a connection share.
turns              limits how many calls run at a time, in order of arrival.
service            is what starts and stops as one: a broker, a controller, a replica of the quorum.
"""
