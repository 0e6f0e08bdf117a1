"""The gate at dispatch: which principal may send which request, and what a denied one is answered.

access   asks the authorizer for one request.
whole    denies requests as a whole.
topics   denies the topics of a request one by one.
groups   denies the groups of a request one by one.
configs  denies the resources of a request for configs one by one.
rows     is the table of all APIs, and writes `docs/security-apis.md`.
gate     puts the rows before the handlers of a listener.
"""
