"""Addresses that a profile may be sent to: what each entry matches, and what is out of form."""

import pytest

from braid.kafka.allowed_hosts import AllowedHost, parse_allowed_host


@pytest.mark.parametrize(
    ("entry", "host", "port"),
    [
        ("kafka.example.com:9093", "kafka.example.com", 9093),
        ("kafka.example.com:9093", "Kafka.Example.com.", 9093),
        ("KAFKA.example.com:*", "kafka.example.com", 1),
        ("*.example.com:9093", "b1.example.com", 9093),
        ("*.example.com:*", "b1.example.com", 65_535),
        ("10.0.0.1:9092", "10.0.0.1", 9092),
        ("[::1]:9092", "::1", 9092),
        ("[::1]:9092", "0:0:0:0:0:0:0:1", 9092),
        ("localhost:9092", "localhost", 9092),
    ],
)
def test_an_address_is_compared_and_what_the_entry_names_matches(entry: str, host: str, port: int) -> None:
    assert parse_allowed_host(entry).matches(host, port)


@pytest.mark.parametrize(
    ("entry", "host", "port"),
    [
        ("kafka.example.com:9093", "kafka.example.com", 9092),
        ("kafka.example.com:9093", "kafka.example.com.evil.org", 9093),
        ("kafka.example.com:*", "xkafka.example.com", 9093),
        ("kafka.example.com:*", "\u212aafka.example.com", 9093),  # the sign of the kelvin, which is k in lower case
        ("*.example.com:9093", "example.com", 9093),
        ("*.example.com:9093", ".example.com", 9093),
        ("*.example.com:9093", "a.b1.example.com", 9093),
        ("*.example.com:9093", "evilexample.com", 9093),
        ("*.example.com:9093", "evil.org:1.example.com", 9093),
        ("*.example.com:9093", "evil.org/.example.com", 9093),
        ("*.example.com:9093", "evil.org\x00.example.com", 9093),
        ("*.example.com:9093", "*.example.com", 9093),
        ("*.example.com:9093", "", 9093),
        ("10.0.0.1:9092", "10.0.0.11", 9092),
        ("10.0.0.1:9092", "::ffff:10.0.0.1", 9092),
        ("[::1]:9092", "127.0.0.1", 9092),
        ("localhost:9092", "127.0.0.1", 9092),
    ],
)
def test_an_address_is_compared_and_anything_else_does_not_match(entry: str, host: str, port: int) -> None:
    assert not parse_allowed_host(entry).matches(host, port)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("kafka.example.com", "is not host:port"),
        (":9093", "is not host:port"),
        ("::1:9092", "is not host:port"),
        ("", "is not host:port"),
        ("kafka.example.com:", "has no port"),
        ("kafka.example.com:http", "has no port"),
        ("kafka.example.com:0", "has no port"),
        ("kafka.example.com:65536", "has no port"),
        ("kafka.example.com:٩٠٩٣", "has no port"),
        ("*:9093", "has \\* where it may not stand"),
        ("kafka-*.example.com:9093", "has \\* where it may not stand"),
        ("*.*.example.com:9093", "has \\* where it may not stand"),
        ("*.:9093", "names no host"),
        ("https://kafka.example.com:9093", "is not host:port"),
        ("kafka example.com:9093", "names no host"),
        ("kafka..example.com:9093", "names no host"),
        ("[::1:9093", "names no host"),
        ("*.0.0.1:9092", "before an address"),
        ("*.[::1]:9092", "is not host:port"),
    ],
)
def test_a_malformed_entry_is_read_and_the_error_says_the_form(entry: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as refused:
        parse_allowed_host(entry)
    assert repr(entry) in str(refused.value) and "; " in str(refused.value)


@pytest.mark.parametrize("entry", ["kafka.example.com:9093", "*.example.com:*", "[::1]:9092"])
def test_an_entry_is_printed_and_reads_as_the_same(entry: str) -> None:
    assert str(parse_allowed_host(entry)) == entry
    assert parse_allowed_host(entry) == parse_allowed_host(str(parse_allowed_host(entry)))
    assert parse_allowed_host("A:1") == AllowedHost("a", 1)
