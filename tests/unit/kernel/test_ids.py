"""Names with numbers in them are read or refused, however many digits a caller sends."""

import pytest

from braid.kafka.protocol.wire import parse_bootstrap
from braid.kernel.errors import Invalid
from braid.kernel.ids import ChannelId, LeaseId, read_number
from braid.kernel.limits.names import NUMBER_DIGITS_MAX

DIGITS = "9" * 5_000  # more than `int` reads


@pytest.mark.parametrize("number", [DIGITS, "9" * 19, "٣", "²", "-1", "", "1_000", " 1"])
def test_a_number_out_of_form_is_refused_as_such(number: str) -> None:
    assert read_number(number) is None
    with pytest.raises(Invalid, match="write <stream>/<lane>/<generation>"):
        ChannelId.parse(f"logs/live/{number}")
    with pytest.raises(Invalid, match="write <stream>/<lane>/<generation>/<partition>"):
        LeaseId.parse(f"logs/live/1/{number}")


@pytest.mark.parametrize("number", [0, 7, 10**NUMBER_DIGITS_MAX - 1])
def test_a_number_in_form_is_read(number: int) -> None:
    assert read_number(f"{number}") == number < 1 << 63
    assert str(ChannelId.parse(f"logs/live/{number}")) == f"logs/live/{number}"
    assert str(LeaseId.parse(f"logs/live/1/{number}")) == f"logs/live/1/{number}"


@pytest.mark.parametrize("port", [DIGITS, "0", "65536", "", "x"])
def test_a_port_out_of_form_is_refused_as_such(port: str) -> None:
    with pytest.raises(Invalid, match="names no brokers"):
        parse_bootstrap(f"east:{port}")
