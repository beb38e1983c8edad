"""Services' records about the wall clocks of replicas, read from the event store."""

from braid.host.system import system_host
from braid.kernel.ports import HistoryId
from braid.runtime.clocks.led_time import HISTORIES, ClockState
from braid.runtime.clocks.led_time_codec import CLOCK
from braid.runtime.histories.fold import Fold
from braid.runtime.opening import open_store


async def clocks_apart(store_url: str, service: str) -> dict[str, int]:
    """By replica, how many milliseconds its clock is ahead of most, as a service's newest leader has recorded."""
    history = HistoryId(HISTORIES, CLOCK.name, service)
    store = open_store(store_url, system_host())
    try:
        fold = Fold(history, CLOCK.erased())
        fold.restore(await store.load(history))
        assert isinstance(fold.state, ClockState)
        return dict(fold.state.apart)
    finally:
        await store.close()
