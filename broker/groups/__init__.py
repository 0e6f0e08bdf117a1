"""The coordinator of consumer groups (classic protocol): who is a member of what, and how far each group has read."""
