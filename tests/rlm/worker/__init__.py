"""The process that copies for a broker."""
