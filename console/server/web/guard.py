"""Guards every request: checks its host, and adds security headers to the answer."""

from collections.abc import Collection
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from braid.rpc.documents import Document
from console.server.json_text import json_bytes
from console.server.problems import Problem

POLICY: Final = "; ".join(
    (
        "default-src 'self'",
        "img-src 'self' data:",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
_HEADERS: Final = (
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
)
_LOCAL: Final = ("127.0.0.1", "::1", "localhost")


class Guard:
    """Refuses requests that name another host, and adds security headers to answers.

    A page of somebody else's may make its own name point to this address (DNS rebinding). Its requests name that host.

    Args:
        app: Answers the requests that are let through.
        hosts: Names by which browsers may call the console, beside those of this machine.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app = app
        self._hosts = frozenset(each.lower() for each in (*_LOCAL, *hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS:
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        if host_name(Headers(scope=scope).get("host", "")) not in self._hosts:
            remedy = "call it by the address that it printed; other names are set with BRAID_CONSOLE_HOSTS"
            problem = Problem(421, "INVALID", "the request names another host", "host", remedy)
            await problem_response(problem)(scope, receive, send_guarded)
            return
        await self._app(scope, receive, send_guarded)


def host_name(host: str) -> str:
    """The name in a `Host` header, lower case and without its port."""
    name = host.partition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    return name.lower()


def problem_response(problem: Problem, cli: str = "") -> Response:
    """An error as an answer; with the command that does the same, where there is one."""
    body: Document = {"error": problem.document(), **({"cli": cli} if cli else {})}
    headers = {"retry-after": "5"} if problem.status in (429, 503) else None
    return Response(json_bytes(body), problem.status, headers, "application/json")
