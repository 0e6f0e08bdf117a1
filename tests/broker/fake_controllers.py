"""A controller channel whose answers a test writes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.base import Request, ResponseT
from tierfetch.tests.messages import plain, response_of

Answer = Callable[[Any], Any] | Exception


class FakeControllers:
    """Takes the place of `ControllerChannel`: `answers` by API, the last one again and again; `asked` keeps bodies."""

    def __init__(self) -> None:
        self.answers: dict[ApiKey, deque[Answer]] = {}
        self.asked: list[tuple[ApiKey, Any]] = []
        self.news = asyncio.Event()

    def will(self, api: ApiKey, *answers: Answer) -> None:
        self.answers[api] = deque(answers)

    def bodies(self, api: ApiKey) -> list[Any]:
        """Return the requests as mappings."""
        return [plain(body) for key, body in self.asked if key is api]

    async def send(self, request: Request[ResponseT], *, timeout_s: float, max_version: int | None = None) -> ResponseT:
        assert timeout_s > 0
        await asyncio.sleep(0)
        api = ApiKey(request.api_key)
        self.asked.append((api, request))
        self.news.set()
        answers = self.answers[api]
        answer = answers.popleft() if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        response: ResponseT = response_of(api, answer(plain(request)))
        return response

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not condition():
                self.news.clear()
                await self.news.wait()
                await asyncio.sleep(0)


def answer(code: ErrorCode = ErrorCode.none, **fields: Any) -> Callable[[Any], Any]:
    return lambda _: {"error_code": code, **fields}


def heartbeat(code: ErrorCode = ErrorCode.none, *, fenced: bool = False, go: bool = False) -> Callable[[Any], Any]:
    return answer(code, is_fenced=fenced, should_shut_down=go, is_caught_up=True)
