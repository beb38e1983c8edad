"""The view of the registry's channels: the part about some streams, made once for all groups that ask."""

from services.assigner.model.channels import Presence, SeenChannel
from services.assigner.model.registry_view import ClusterPlace, RegistryView


def seen(name: str, cluster: str = "east") -> SeenChannel:
    return SeenChannel(name, cluster, f"braid.{name.replace('/', '.')}", 2, Presence.CONSUMABLE)


def view(*names: str, zone: str = "a") -> RegistryView:
    place = ClusterPlace("east", "east:9092", zone, "")
    return RegistryView(3, {name: seen(name) for name in names}, {"east": place})


def test_a_part_has_the_channels_of_its_streams_by_name() -> None:
    whole = view("logs/live/2", "carts/live/1", "logs/bulk/1", "logs2/live/1")
    found = whole.of(["logs", "carts", "logs", "nowhere"])
    assert [each.name for each in found.channels] == ["carts/live/1", "logs/bulk/1", "logs/live/2"]
    assert found.revision == 3 and {each.zone for each in found.channels} == {"a"}
    assert whole.unknown(["logs", "nowhere"]) == ["nowhere"]


def test_groups_of_one_stream_share_its_channels() -> None:
    """With 45,000 groups each one read the names of all channels anew, and the leader answered nobody meanwhile."""
    whole = view("logs/live/1", "carts/live/1")
    (one,), (_, other) = whole.of(["logs"]).channels, whole.of(["carts", "logs"]).channels
    assert one is other


def test_a_later_view_is_about_what_it_has_seen() -> None:
    before = view("logs/live/1")
    assert [each.zone for each in before.of(["logs"]).channels] == ["a"]
    after = before.followed_by(view("logs/live/2", zone="b"))
    assert [(each.name, each.zone) for each in after.of(["logs"]).channels] == [
        ("logs/live/1", "b"),
        ("logs/live/2", "b"),
    ]
    assert [each.name for each in before.of(["logs"]).channels] == ["logs/live/1"]


def test_streams_of_other_channels_differ() -> None:
    before = view("logs/live/1", "carts/live/1", "old/live/1")
    after = RegistryView(
        4, {name: seen(name) for name in ("logs/live/1", "logs/live/2", "carts/live/1")}, before.clusters
    )
    assert after.differing(before) == {"logs", "old"}
    moved = before.followed_by(RegistryView(4, {"carts/live/1": seen("carts/live/1", "west")}))
    assert moved.differing(before) == {"carts"}
    assert before.followed_by(RegistryView(9)).differing(before) == set()


def test_another_cluster_concerns_all_groups() -> None:
    before = view("logs/live/1")
    assert before.differing(None) is None
    assert view("logs/live/1", zone="b").differing(before) is None
    assert RegistryView(4, before.channels).differing(before) is None
