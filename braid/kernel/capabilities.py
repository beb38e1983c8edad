"""Names of the capabilities that a client's SDK states when it opens a stream to a service."""

from typing import Final

# It tells a cluster that refuses it from one that does not answer, and reports the latter alone.
KNOWS_DENIALS: Final = "knows-denials"
# It divides its handlers between lanes, and runs more of them, as the assigner says.
WORK_DIVISION: Final = "work-division"
# It is a Spark query: Spark's checkpoint holds its progress, and what it commits follows that.
SPARK: Final = "spark"
