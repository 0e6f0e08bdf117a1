"""KRaft: one replicated log with elected leaders (KIP-595, KIP-630, KIP-853, KIP-996); not what its records mean."""
