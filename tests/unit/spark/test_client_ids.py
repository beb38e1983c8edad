"""The client id under which a streaming query joins its group."""

from braid.host.system import system_host
from braid.spark.options import UNNAMED, stream_options
from braid.spark.stream import member_client_id


def test_two_unnamed_queries_have_client_ids_of_their_own() -> None:
    given = stream_options({"endpoint": "127.0.0.1:1", "stream": "logs", "group": "g"}).mesh.client_id
    one, other = member_client_id(given, system_host()), member_client_id(given, system_host())
    assert one != other
    assert one.startswith(f"{UNNAMED}-")


def test_a_query_that_is_named_keeps_its_client_id() -> None:
    named = {"endpoint": "127.0.0.1:1", "stream": "logs", "group": "g", "clientid": "nightly"}
    assert member_client_id(stream_options(named).mesh.client_id, system_host()) == "nightly"
