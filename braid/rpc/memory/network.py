"""A network in memory: links with latency between processes, and the calls on them. Faults are injected here.

Messages of one call and direction arrive in order. A cut holds messages until it heals, as TCP does, and breaks calls
once keepalive would have. Built on asyncio alone, so it follows a loop on virtual time.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Final, NamedTuple

from braid.kernel.errors import BraidError, StreamExpired, Unavailable
from braid.kernel.limits.rpc import KEEPALIVE_INTERVAL_SECONDS, KEEPALIVE_TIMEOUT_SECONDS, STREAM_INBOX_MESSAGES_MAX
from braid.kernel.ports import Authenticator, Caller, Clock, PeerCertificate, Randomness, RpcService, Shown
from braid.rpc.inbox import Inbox

_LATENCY_SECONDS: Final = (0.0002, 0.001)
_CUT_NOTICE_SECONDS: Final = KEEPALIVE_INTERVAL_SECONDS + KEEPALIVE_TIMEOUT_SECONDS
_FIRST_PORT: Final = 10_000


class MemoryNetwork:
    """Processes by name, the addresses they serve at, and the state of the links between them.

    Every method that takes a process name also takes an address that the process serves at.
    """

    def __init__(self, clock: Clock, randomness: Randomness) -> None:
        self._clock = clock
        self._randomness = randomness
        self._listeners: dict[str, Listener] = {}
        self._latencies: dict[tuple[str, str], tuple[float, float]] = {}
        self._cuts: dict[tuple[str, str], int] = {}
        self._calls: dict[int, Call] = {}
        self._numbers = _FIRST_PORT

    # --- faults

    def set_latency(self, a: str, b: str, low_seconds: float, high_seconds: float) -> None:
        """Sets how long messages between two processes take, in both directions."""
        for link in self._both_ways(a, b):
            self._latencies[link] = (low_seconds, high_seconds)

    def cut(self, a: str, b: str, *, one_way: bool = False) -> None:
        """Holds messages from a to b, and back unless `one_way`, until `heal`. Calls break once keepalive notices."""
        mark = self.next_number()
        for link in self._both_ways(a, b)[: 1 if one_way else 2]:
            self._cuts[link] = mark
            asyncio.get_running_loop().call_later(_CUT_NOTICE_SECONDS, self._notice_cut, link, mark)

    def heal(self, a: str, b: str) -> None:
        """Ends a cut; held messages arrive now."""
        for link in self._both_ways(a, b):
            self._cuts.pop(link, None)
        for call in tuple(self._calls.values()):
            call.resume()

    def expire(self, process: str) -> None:
        """Ends a process's streams as if they had reached their maximum lifetime."""
        expired = StreamExpired("the stream lasted as long as one may", remedy="open it again")
        for call in tuple(self._calls.values()):
            if call.client == process and call.streams:
                call.break_stream(expired)

    def kill(self, process: str) -> None:
        """Kills a process: its addresses are free, its handlers end, its peers' kernels break their calls."""
        name = self.process_of(process)
        for address in [address for address, listener in self._listeners.items() if listener.process == name]:
            del self._listeners[address]
        for call in tuple(self._calls.values()):
            if name in (call.client, call.server):
                call.lose(name)

    def serving(self, address: str) -> bool:
        """The answer to health checks of an address; False if nobody listens."""
        listener = self._listeners.get(address)
        return listener is not None and listener.serving

    # --- for transports

    def listen(self, address: str, listener: "Listener") -> str:
        """Takes an address (a new port for port 0). Raises `Unavailable` if it is in use."""
        host, _, port = address.rpartition(":")
        bound = f"{host}:{self.next_number()}" if port == "0" else address
        if bound in self._listeners:
            raise Unavailable(f"cannot listen on {bound}", remedy="is the port in use?")
        self._listeners[bound] = listener
        return bound

    def unlisten(self, address: str, listener: "Listener") -> None:
        """Frees an address, if this listener still has it."""
        if self._listeners.get(address) is listener:
            del self._listeners[address]

    def listener(self, address: str) -> "Listener | None":
        """The listener at an address, if any."""
        return self._listeners.get(address)

    def process_of(self, name: str) -> str:
        """The process that serves at an address, or the name itself."""
        listener = self._listeners.get(name)
        return name if listener is None else listener.process

    def next_number(self) -> int:
        """A number that was never used before, for ports, calls and cuts."""
        self._numbers += 1
        return self._numbers

    def open(self, client: str, address: str, method: str, credentials: "Credentials") -> "Call":
        """Begins a call; it arrives at the process that serves at the address by then."""
        call = Call(self, client, address, method, credentials)
        self._calls[call.number] = call
        call.begin()
        if self.is_cut(client, call.server):
            asyncio.get_running_loop().call_later(_CUT_NOTICE_SECONDS, call.expect_arrival)
        return call

    def forget(self, call: "Call") -> None:
        """Removes a call that is over."""
        self._calls.pop(call.number, None)

    def is_cut(self, sender: str, receiver: str) -> bool:
        """Whether messages in this direction are held."""
        return (sender, receiver) in self._cuts

    def arrival(self, sender: str, receiver: str, after: float) -> float:
        """The arrival time of a message sent now, on the network's clock; never before `after`."""
        low, high = self._latencies.get((sender, receiver), _LATENCY_SECONDS)
        return max(after, self._clock.elapsed() + self._randomness.uniform(low, high))

    def until_wall(self, at_ms: int) -> float:
        """Seconds until a time on the wall clock."""
        return max(0.0, (at_ms - self._clock.now_ms()) / 1000)

    def left(self, until: float) -> float:
        """Seconds until a time on the network's clock."""
        return max(0.0, until - self._clock.elapsed())

    def _both_ways(self, a: str, b: str) -> list[tuple[str, str]]:
        one, other = self.process_of(a), self.process_of(b)
        return [(one, other), (other, one)]

    def _notice_cut(self, link: tuple[str, str], mark: int) -> None:
        if self._cuts.get(link) != mark:
            return
        for call in tuple(self._calls.values()):
            if {call.client, call.server} == set(link):
                call.lose(call.client, told=True)
                call.lose(call.server, told=True)


class Credentials(NamedTuple):
    """A caller's proofs, and the claims beside its request."""

    shown: Shown
    metadata: Sequence[tuple[str, str]]
    certificate: PeerCertificate | None = None


class Listener:
    """A process that serves at an address. Handlers run in the context that began to serve, so they end with that
    process."""

    def __init__(self, process: str, service: RpcService, context: Context, authenticator: Authenticator) -> None:
        self.process = process
        self.service = service
        self.authenticator = authenticator
        self.serving = False
        self.context = context
        self.calls: dict[int, Call] = {}
        self.start: Callable[[Call], asyncio.Task[None]] | None = None


class Pipe:
    """One direction of a call: bounded, delayed, ordered, and held while its link is cut."""

    def __init__(self, network: MemoryNetwork, sender: str, receiver: str) -> None:
        self.inbox = Inbox()
        self.sender = sender
        self.receiver = receiver
        self._network = network
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()
        self._last = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._unread = 0
        self._room = asyncio.Event()
        self._closed: BraidError | None = None

    async def send(self, data: bytes) -> None:
        """Sends a message, waiting while the receiver is far behind. Raises `Unavailable` once the sender knows of the
        end."""
        while self._unread >= STREAM_INBOX_MESSAGES_MAX and self._closed is None:
            self._room.clear()
            await self._room.wait()
        if self._closed is not None:
            raise self._closed
        self._unread += 1
        self.carry(lambda: self.inbox.add(data))

    async def receive(self) -> object | None:
        """The next message's bytes; see `Inbox.get`."""
        message = await self.inbox.get()
        self._unread -= 1
        self._room.set()
        return message

    def carry(self, delivery: Callable[[], None]) -> None:
        """Runs a callback at the receiver, after everything sent before."""
        self._last = self._network.arrival(self.sender, self.receiver, self._last)
        self._waiting.append((self._last, delivery))
        self.resume()

    def resume(self) -> None:
        """Continues delivery, unless the link is cut or the next message is not due."""
        if self._waiting and self._timer is None and not self._network.is_cut(self.sender, self.receiver):
            wait = self._network.left(self._waiting[0][0])
            self._timer = asyncio.get_running_loop().call_later(wait, self._deliver)

    def close(self, error: BraidError) -> None:
        """Tells the sender of the end: further sends raise."""
        self._closed = self._closed or error
        self._room.set()

    def _deliver(self) -> None:
        self._timer = None
        if self._waiting and not self._network.is_cut(self.sender, self.receiver):
            self._waiting.popleft()[1]()
        self.resume()


class Call:
    """A call of any shape: a pipe each way, and the task that handles it at the server."""

    def __init__(
        self, network: MemoryNetwork, client: str, address: str, method: str, credentials: Credentials
    ) -> None:
        self.number = network.next_number()
        self.client = client
        self.address = address
        self.server = network.process_of(address)
        self.method = method
        self.credentials = credentials
        self.caller = Caller("", "", "", client)  # until it is known
        self.to_server = Pipe(network, client, self.server)
        self.to_client = Pipe(network, self.server, client)
        self._network = network
        self._listener: Listener | None = None
        self.task: asyncio.Task[None] | None = None
        self._arrived = False

    def begin(self) -> None:
        """Connects, as the client's kernel does."""
        self.to_server.carry(self._arrive)

    def give_up(self) -> None:
        """Ends the call at the client without waiting: cancelled, timed out or broken."""
        error = Unavailable(f"the connection to {self.client} is gone")
        self.to_client.inbox.fail(Unavailable(f"{self.address}: the stream was closed here"))
        self.to_server.close(Unavailable(f"{self.address}: the stream is over"))
        self.to_server.carry(lambda: self._lost_at_server(error))
        self._network.forget(self)

    def end_at_server(self, error: BraidError | None) -> None:
        """Ends the call after its handler: the client learns the result, after everything sent before."""
        inbox = self.to_client.inbox
        over = error or Unavailable(f"{self.address}: the stream is over")
        self.to_client.carry(inbox.end if error is None else lambda: inbox.fail(over))
        self.to_client.carry(lambda: self._over_at_client(over))
        self.to_client.close(over)
        self.to_server.inbox.fail(Unavailable(f"the stream of {self.client} is over"))
        if self._listener is not None:
            self._listener.calls.pop(self.number, None)

    def lose(self, process: str, *, told: bool = False) -> None:
        """Handles the loss of one end. The peer's kernel reports it after a message's time, or this end's timer does
        (`told`)."""
        gone = Unavailable(f"the connection between {self.client} and {self.address} is gone")
        if told and process == self.client:
            self._lost_at_client(gone)
        elif told:
            self._lost_at_server(gone)
        elif process == self.client:
            self._network.forget(self)
            self.to_server.carry(lambda: self._lost_at_server(gone))
        else:
            self._lost_at_server(gone)
            self.to_client.carry(lambda: self._lost_at_client(gone))

    def resume(self) -> None:
        """Continues delivery both ways if a cut has healed."""
        self.to_server.resume()
        self.to_client.resume()

    def expect_arrival(self) -> None:
        """Fails the attempt to connect if it lasts too long."""
        if not self._arrived:
            self._lost_at_client(Unavailable(f"{self.address}: cannot connect"))

    @property
    def streams(self) -> bool:
        """Whether the call is being served and is not unary."""
        return self._listener is not None and self.method not in self._listener.service.unary

    def expire_at(self, at_ms: int) -> asyncio.TimerHandle:
        """Ends the call, if it is a stream, when its caller's proof ends by the wall clock."""
        expired = StreamExpired("the stream lasted as long as its caller's token", remedy="open it again")
        end = self.break_stream if self.streams else lambda _: None
        return asyncio.get_running_loop().call_later(self._network.until_wall(at_ms), end, expired)

    def break_stream(self, error: BraidError) -> None:
        """Ends the call from the server's side: a duplex handler gets the error, a response stream is cut off."""
        self.to_server.inbox.fail(error)
        if self.task is not None and self.method not in self._duplex_methods():
            self.end_at_server(error)
            self.task.cancel()

    def _duplex_methods(self) -> frozenset[str]:
        return frozenset(self._listener.service.duplex) if self._listener else frozenset()

    def _arrive(self) -> None:
        self._arrived = True
        listener = self._network.listener(self.address)
        if self.to_client.inbox.over():
            return
        if listener is None or listener.start is None:
            self.end_at_server(Unavailable(f"{self.address}: connection refused"))
            return
        self._listener = listener
        listener.calls[self.number] = self
        self.task = listener.start(self)

    def _over_at_client(self, error: BraidError) -> None:
        self.to_server.close(error if isinstance(error, Unavailable) else Unavailable(error.message))
        self._network.forget(self)

    def _lost_at_client(self, error: BraidError) -> None:
        self.to_client.inbox.fail(error)
        self.to_server.close(error)
        self._network.forget(self)

    def _lost_at_server(self, error: BraidError) -> None:
        self.to_server.inbox.fail(error)
        self.to_client.close(error)
        if self._listener is not None:
            self._listener.calls.pop(self.number, None)
        if self.task is not None and self.method not in self._duplex_methods():
            self.task.cancel()
