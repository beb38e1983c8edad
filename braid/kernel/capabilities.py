"""Names of the capabilities that a client's SDK states when it opens a stream to the registry."""

from typing import Final

# It tells a cluster that refuses it from one that does not answer, and reports the latter alone.
KNOWS_DENIALS: Final = "knows-denials"
