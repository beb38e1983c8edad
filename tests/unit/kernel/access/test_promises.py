"""Promises to requests under way count until the request ends, however it ends."""

import pytest

from braid.kernel.access.promises import Promises


def test_a_promise_counts_until_its_request_ends() -> None:
    promises = Promises[str]()
    with promises.made("acme", "first"), promises.made("bakery", "other"):
        with promises.made("acme", "second"):
            assert promises.of("acme") == {"first", "second"}
        assert promises.of("acme") == {"first"}
        assert promises.tenants() == {"acme", "bakery"}
    assert not promises.tenants()


def test_a_promise_made_twice_counts_until_both_requests_end() -> None:
    promises = Promises[str]()
    with promises.made("acme", "same"):
        with promises.made("acme", "same"):
            pass
        assert promises.of("acme") == {"same"}
    assert not promises.of("acme")


def test_a_request_that_fails_takes_its_promise_back() -> None:
    promises = Promises[str]()
    with pytest.raises(ValueError, match="failed"), promises.made("acme", "first"):
        raise ValueError("failed")
    assert not promises.tenants()
