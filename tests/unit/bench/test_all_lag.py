"""The benchmark of all groups' lag reads rows and records from each kind of answer."""

from bench.all_lag import Answer, braid_answer, console_answer, kafka_answer
from bench.harness.lag_ground import BEHIND_MAX, PARTITIONS, RECORDS, Groups

KAFKA = """
Consumer group 'app-00000' has no active members.

GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID     HOST            CLIENT-ID
app-00000       orders-000      0          200             200             0               -               -               -
app-00000       orders-000      1          199             200             1               -               -               -

Consumer group 'app-00001' has no active members.

GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID     HOST            CLIENT-ID
app-00001       orders-000      0          170             200             30              -               -               -
"""  # noqa: E501 - as the command prints it
BRAID = """\
NAME                          CLUSTER   RECORDS   SECONDS   STATE          COMMIT
app-00000/east:orders-000/0   east      0         0.0       foreign        2m
app-00001/east:orders-000/0   east      1,030     ≥12.0     STALE,foreign  2m
"""


def test_kafkas_table_gives_rows_and_their_lag() -> None:
    assert kafka_answer(KAFKA) == Answer(3, 31)


def test_braids_table_gives_rows_and_their_lag() -> None:
    assert braid_answer(BRAID) == Answer(2, 1_030)


def test_the_consoles_answer_gives_rows_and_their_lag() -> None:
    assert console_answer({"lag": [{"lag_records": 7}, {"lag_records": 0}]}) == Answer(2, 7)


def test_the_lag_of_all_groups_is_known_beforehand() -> None:
    groups = Groups(201)
    assert (len(groups.topics), groups.rows) == (3, 201 * PARTITIONS)
    assert groups.topic(200) == groups.topics[2]
    lags = [groups.lag(group, partition) for group in range(201) for partition in range(PARTITIONS)]
    assert max(lags) < BEHIND_MAX <= RECORDS and min(lags) == 0
    assert sum(lags) == groups.behind
