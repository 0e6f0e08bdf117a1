"""`tierfetch demo`: replace a broker under each bootstrap policy, time it, and prove the result."""
