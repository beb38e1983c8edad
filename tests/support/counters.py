"""The smallest service there is, for tests of the runtime: named counters that can be added to."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from google.protobuf.wrappers_pb2 import Int64Value, StringValue

from braid.kernel.decider import Context
from braid.kernel.errors import CorruptHistory, Invalid
from braid.kernel.ports import Caller, RpcService
from braid.rpc.methods import method_path, unary
from braid.runtime.histories.kinds import AnyKind, Kind
from braid.runtime.replica import Replica


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter's state; `added` counts its events."""

    name: str
    value: int = 0
    added: int = 0


@dataclass(frozen=True, slots=True)
class Add:
    """Adds to a counter, in one event per step."""

    amount: int
    steps: int = 1


@dataclass(frozen=True, slots=True)
class Added:
    """The event that a counter grew."""

    amount: int
    note: str = ""


class CounterDecider:
    """Counters never shrink; adding nothing does nothing."""

    def initial(self, history: str) -> Counter:
        """Zero."""
        return Counter(history)

    def decide(self, state: Counter, command: Add, context: Context) -> Sequence[Added]:
        """Raises `Invalid` for a negative amount."""
        if command.amount < 0:
            raise Invalid("counters never shrink", field="amount")
        return [Added(command.amount)] * command.steps if command.amount else []

    def evolve(self, state: Counter, event: Added, context: Context) -> Counter:
        """Adds."""
        return Counter(state.name, state.value + event.amount, state.added + 1)


class CounterCodec:
    """Events and states as JSON."""

    def encode(self, event: Added, context: Context) -> bytes:
        """See `EventCodec`."""
        return json.dumps({"added": asdict(event), "context": asdict(context)}).encode()

    def decode(self, data: bytes) -> tuple[Added, Context]:
        """See `EventCodec`."""
        try:
            read = json.loads(data)
            return Added(**read["added"]), Context(**read["context"])
        except (ValueError, KeyError) as error:
            raise CorruptHistory("not an event of a counter") from error

    def encode_state(self, state: Counter) -> bytes:
        """See `EventCodec`."""
        return json.dumps(asdict(state), sort_keys=True).encode()

    def decode_state(self, data: bytes) -> Counter:
        """See `EventCodec`."""
        try:
            return Counter(**json.loads(data))
        except (ValueError, TypeError) as error:
            raise CorruptHistory("not a counter") from error


COUNTERS: Final[Kind[Counter, Add, Added]] = Kind("counter", CounterDecider(), CounterCodec())


class CounterService:
    """Serves `Add` (to the counter `total`) at the leader and `Read` at any replica. Takes the registry's name."""

    name = "registry"
    kinds: Mapping[str, AnyKind] = {"counter": COUNTERS}

    def __init__(self) -> None:
        self.terms = 0

    def rpc(self, replica: Replica) -> RpcService:
        """See `Service`."""

        async def add(request: Int64Value, caller: Caller) -> Int64Value:
            outcome = await replica.aggregates.execute(
                COUNTERS,
                "total",
                Add(request.value),
                actor=caller.principal or "anonymous",
                request_id=caller.request_id,
            )
            return Int64Value(value=outcome.state.value)

        async def read(request: StringValue, caller: Caller) -> Int64Value:
            return Int64Value(value=replica.aggregates.state(COUNTERS, request.value).value)

        unaries = {
            method_path(self.name, "Add"): unary(Int64Value, add),
            method_path(self.name, "Read"): unary(StringValue, read),
        }
        return RpcService(self.name, unaries, {}, {})

    async def lead(self, replica: Replica) -> None:
        """Leaves a trace of every term."""
        self.terms += 1
        await replica.aggregates.execute(COUNTERS, "terms", Add(1), actor=replica.instance)

    async def follow(self, replica: Replica) -> None:
        """Nothing to do."""
