"""What a remote segment is: its id, metadata, legal states, look-up by (epoch, offset), and the two plugin ports.

Knows neither who uploads nor why.
"""
