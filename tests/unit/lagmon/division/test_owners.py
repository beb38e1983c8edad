"""The division of clusters: everything is read, shares are even, and few clusters move when a member comes or goes."""

from hypothesis import given
from hypothesis import strategies as st

from services.lagmon.division.owners import Division, divide

NAMES = st.text("abcdefghij-0123456789", min_size=1, max_size=8)
CLUSTERS = st.sets(NAMES, max_size=40)
MEMBERS = st.sets(NAMES, min_size=1, max_size=8)


@given(CLUSTERS, MEMBERS)
def test_every_cluster_has_one_owner_and_shares_are_even(clusters: set[str], members: set[str]) -> None:
    division = divide(clusters, members)
    owned = [division.owned(member) for member in members]
    assert sorted(cluster for each in owned for cluster in each) == sorted(clusters)
    assert max(map(len, owned)) <= -(-len(clusters) // len(members))


@given(CLUSTERS, MEMBERS)
def test_each_cluster_ranks_every_member_once(clusters: set[str], members: set[str]) -> None:
    for ranked in divide(clusters, members).ranks.values():
        assert sorted(ranked) == sorted(members)


@given(CLUSTERS, MEMBERS)
def test_the_order_of_names_changes_nothing(clusters: set[str], members: set[str]) -> None:
    assert divide(sorted(clusters), sorted(members)) == divide(
        sorted(clusters, reverse=True), sorted(members, reverse=True)
    )


def moved(before: Division, after: Division) -> int:
    """Counts clusters with another owner."""
    return sum(ranked[0] != after.ranks[cluster][0] for cluster, ranked in before.ranks.items())


def test_few_clusters_move_when_a_member_comes_or_goes() -> None:
    """A hundred clusters: little more than the share of who came or went, and never half of all."""
    clusters = [f"cluster-{number}" for number in range(100)]
    for size in range(1, 9):
        fewer = divide(clusters, [f"lagmon-{number}" for number in range(size)])
        more = divide(clusters, [f"lagmon-{number}" for number in range(size + 1)])
        share = len(clusters) / (size + 1)
        assert moved(fewer, more) <= 1.5 * share, size


def test_a_cluster_that_comes_or_goes_moves_at_most_two_others() -> None:
    members = [f"lagmon-{number}" for number in range(3)]
    for size in range(1, 60):
        clusters = [f"cluster-{number}" for number in range(size)]
        before, after = divide(clusters, members), divide([*clusters, "new"], members)
        assert moved(before, after) <= 2, size
