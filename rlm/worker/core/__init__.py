"""The messages between a broker and its worker. Pure.

messages  has what both say, and its form as bytes.
"""
