"""KEDA's external scaler: tells Kubernetes how many members a group should have.

Any replica answers from the histories that it follows, so a change of the leader shows nowhere: the last number stands
until another is decided. A group that is not scaled automatically is refused, and KEDA then changes nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Final

from braid.api.keda import externalscaler_pb2 as keda
from braid.kernel.errors import BraidError, Invalid, Refused
from braid.kernel.limits.assigner.scaling import SCALER_STREAMS_SECONDS
from braid.kernel.ports import Caller, StreamHandler, UnaryHandler
from braid.rpc.methods import server_stream, unary
from braid.runtime.histories.kinds import Change, Reloaded
from braid.runtime.replica import Replica
from services.assigner.domain.decide import registered_spec
from services.assigner.model.lag.scaling import DesiredCapacity, ScalingMode, is_restored
from services.assigner.reconciler.group_loop import GROUPS

METRIC: Final = "desired-members"
GROUP: Final = "group"  # the entry of a trigger's metadata that names the group
_SERVICE: Final = keda.DESCRIPTOR.services_by_name["ExternalScaler"].full_name


class Scaler:
    """The handlers of KEDA's service `externalscaler.ExternalScaler`."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self.unary: Mapping[str, tuple[type, UnaryHandler]] = {
            f"/{_SERVICE}/IsActive": unary(keda.ScaledObjectRef, self.is_active),
            f"/{_SERVICE}/GetMetricSpec": unary(keda.ScaledObjectRef, self.get_metric_spec),
            f"/{_SERVICE}/GetMetrics": unary(keda.GetMetricsRequest, self.get_metrics),
        }
        self.server_stream: Mapping[str, tuple[type, StreamHandler]] = {
            f"/{_SERVICE}/StreamIsActive": server_stream(keda.ScaledObjectRef, self.stream_is_active),
        }

    async def is_active(self, request: keda.ScaledObjectRef, caller: Caller) -> keda.IsActiveResponse:
        """Says that members are wanted: a policy keeps at least one. Raises `NotFound`, `Invalid`, `Refused`."""
        self._desired(request)
        return keda.IsActiveResponse(result=True)

    async def get_metric_spec(self, request: keda.ScaledObjectRef, caller: Caller) -> keda.GetMetricSpecResponse:
        """Names the metric, of which each member is for 1. Raises `NotFound`, `Invalid`, `Refused`."""
        self._desired(request)
        spec = keda.MetricSpec(metricName=METRIC, targetSize=1, targetSizeFloat=1.0)
        return keda.GetMetricSpecResponse(metricSpecs=[spec])

    async def get_metrics(self, request: keda.GetMetricsRequest, caller: Caller) -> keda.GetMetricsResponse:
        """Returns the number of members. Raises `NotFound`, `Invalid`, `Refused`."""
        if request.metricName not in ("", METRIC):
            raise Invalid(f"there is no metric {request.metricName!r}", field="metricName", remedy=f"use {METRIC}")
        members = self._desired(request.scaledObjectRef).members
        value = keda.MetricValue(metricName=METRIC, metricValue=members, metricValueFloat=members)
        return keda.GetMetricsResponse(metricValues=[value])

    async def stream_is_active(
        self, request: keda.ScaledObjectRef, caller: Caller
    ) -> AsyncIterator[keda.IsActiveResponse]:
        """Says so at once and at each change of the number, which KEDA then reads; else now and then.

        Raises:
            NotFound: the group does not exist, or no longer.
            Refused: the group is not scaled automatically, or no longer.
        """
        changed = asyncio.Event()

        def hear(change: Change | Reloaded) -> None:
            if isinstance(change, Reloaded) or change.history.id == request.scalerMetadata.get(GROUP):
                changed.set()

        end = self._replica.aggregates.subscribe(hear)
        try:
            told: DesiredCapacity | None = None
            while True:
                changed.clear()
                desired = self._desired(request)
                if desired != told:
                    told = desired
                    yield keda.IsActiveResponse(result=True)
                if not await self._heard(changed):
                    told = None
        finally:
            end()

    async def _heard(self, changed: asyncio.Event) -> bool:
        try:
            async with asyncio.timeout(SCALER_STREAMS_SECONDS):
                await changed.wait()
        except TimeoutError:
            return False
        return True

    def _desired(self, scaled: keda.ScaledObjectRef) -> DesiredCapacity:
        """Returns the number of a trigger's group."""
        name = scaled.scalerMetadata.get(GROUP, "")
        if not name:
            remedy = "name the group in the trigger's metadata: group: NAME"
            raise Invalid("a group is needed", field=f"scalerMetadata.{GROUP}", remedy=remedy)
        state = self._replica.aggregates.state(GROUPS, name)
        registered_spec(state)
        desired, mode = state.scaling.desired, state.scaling.policy.mode
        if desired is None or mode is not ScalingMode.AUTOMATIC:
            raise _not_automatic(name, mode)
        if is_restored(state.scaling, self._replica.aggregates.incarnation):
            message = f"the number of group {name!r} is from before the store was restored"
            raise Refused(message, field=f"scalerMetadata.{GROUP}", remedy="ask again in a minute")
        return desired


def _not_automatic(group: str, mode: ScalingMode) -> BraidError:
    return Refused(
        f"group {group!r} is not scaled automatically: its policy is {mode.name.lower()}",
        field=f"scalerMetadata.{GROUP}",
        remedy=f"set it: braid set scaling {group} automatic --max MEMBERS",
    )
