"""Which local segments to copy, which remote ones to expire, which local ones may go.

Is told leadership and offsets; `plan` decides, `manager` does.
"""
