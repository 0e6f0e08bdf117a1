"""Have asyncio use uvloop's event loops: the folder is on the `PYTHONPATH` of those interpreters alone."""

import asyncio
import importlib

asyncio.set_event_loop_policy(importlib.import_module("uvloop").EventLoopPolicy())
