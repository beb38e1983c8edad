"""Names of clusters; what brokers do is tested on real ones."""

from devmesh.brokers import new_cluster_id


def test_cluster_ids_are_distinct_and_never_look_like_options() -> None:
    ids = [new_cluster_id() for _ in range(2_000)]
    assert len(set(ids)) == len(ids)
    assert {len(cluster_id) for cluster_id in ids} == {22}
    assert not any(cluster_id.startswith("-") for cluster_id in ids)
