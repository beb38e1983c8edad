"""Tables of lag over two clusters, drawn at random: channels, topics of nobody, and groups of Braid's and of others."""

from hypothesis import strategies as st

from braid.kernel.ports import TopicPartition
from services.lagmon.columns.lags import LagColumns
from services.lagmon.domain import lag_of
from services.lagmon.model.mesh_view import Channel, GroupSubscription, MeshView, Presence
from services.lagmon.policy import Now
from tests.unit.lagmon.columns.rows import Key, Said, model_of

NOW = Now(9.0, 9_000)
CLUSTERS = ("east", "west")
names = st.sampled_from(["a", "b", "b0"])
keys = st.tuples(names, st.sampled_from(["t", "u", "x"]), st.integers(0, 3))
values: st.SearchStrategy[Said] = st.tuples(st.integers(0, 9), st.sampled_from(["", "b1:damaged"]))
tables = st.lists(st.dictionaries(keys, values, min_size=1, max_size=12), min_size=2, max_size=2)


def view() -> MeshView:
    """Topics t and u are channels; group a is registered, and b is another's."""
    channels = {}
    for cluster in CLUSTERS:
        for topic, lane in (("t", "live"), ("u", "bulk")):
            name = f"logs/{lane}/{cluster}"
            channels[name] = Channel("logs", lane, cluster, topic, 2, Presence.OPEN, name)
    return MeshView(channels=channels, groups={"a": GroupSubscription(frozenset({"logs"}))})


def columns_of(said: list[dict[Key, Said]]) -> list[LagColumns]:
    looked = {TopicPartition(topic, number): 7 for topic in "tux" for number in range(4)}
    models = [model_of(found, [(1.0, looked)], name=name) for name, found in zip(CLUSTERS, said, strict=True)]
    return [lag_of(model, view(), NOW) for model in models]
