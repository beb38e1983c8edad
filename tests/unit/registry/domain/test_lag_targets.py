"""Lag targets of streams: declared, changed by an update, and refused by their field."""

import pytest

from braid.kernel.errors import Invalid
from services.registry.codec.specs import read_stream_spec, stream_spec_message
from services.registry.model.streams import StreamSpec, check_stream_spec


def test_targets_survive_the_message() -> None:
    spec = check_stream_spec(StreamSpec({"live": 1}, lag_target={"live": "5s", "live/g": "1h"}, availability=99.5))
    assert read_stream_spec(stream_spec_message(spec)) == spec
    plain = check_stream_spec(StreamSpec({"live": 1}))
    assert (plain.lag_target, plain.availability) == ({}, None)
    assert read_stream_spec(stream_spec_message(plain)) == plain


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (StreamSpec({"live": 1}, lag_target={"live": "0s"}), "spec.lag_target.live"),
        (StreamSpec({"live": 1}, lag_target={"live": "365d"}), "spec.lag_target.live"),
        (StreamSpec({"live": 1}, lag_target={"bulk": "5s"}), "spec.lag_target.bulk"),
        (StreamSpec({"live": 1}, availability=100.0), "spec.availability"),
        (StreamSpec({"live": 1}, availability=0.0), "spec.availability"),
    ],
)
def test_a_wrong_target_is_refused_by_its_field(spec: StreamSpec, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_stream_spec(spec)
    assert (caught.value.field, bool(caught.value.remedy)) == (field, True)
