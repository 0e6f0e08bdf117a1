"""Connections: clients, listeners, their limits, and dispatch to handlers.

dispatch           declares what a handler gets and returns.
server             is a listener: it accepts, limits and ends connections.
server_limits      declares the limits of one listener.
admission          decides which connections a listener accepts.
request_memory     bounds the memory of its requests, and decides which connection reads on.
arrival            watches the request that is arriving on one connection.
tls_transport      is asyncio's TLS as both ends use it.
dialing            connects to an address that another node has named, over TLS or not.
tls_acceptor       is the TLS handshake of an accepted connection.
gates              say which requests a connection may send, and as which principal.
sasl               answers SaslHandshake and SaslAuthenticate.
server_connection  is one accepted connection: requests in, responses out in the same order.
client             keeps connections to brokers by address, shared by their users.
client_connection  is one connection to a broker: many requests in flight, each with a deadline.
slicing            handles large requests piece by piece.
stream             holds what both ends of a connection share.
clock              is the event loop's clock.
pace               cuts long work into slices, and limits the slices of one iteration of the event loop.
for_each           does the same for many items: some at a time, begun at that pace.
batch_reading      reads the records of a batch in such slices.
turns              limits how many calls run at a time, in order of arrival.
service            is what starts and stops as one: a broker, a controller, a replica of the quorum.
"""
