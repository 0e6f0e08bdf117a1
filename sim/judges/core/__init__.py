"""The judges that are pure: events and values in, violations and anomalies out."""
