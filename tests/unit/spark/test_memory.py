"""Freed memory is used again instead of being cleared again."""

import subprocess
import sys

from braid.spark.memory import keep_freed_memory

_FAULTS = """
import resource, sys
from braid.spark.memory import keep_freed_memory
if sys.argv[1] == "kept":
    assert keep_freed_memory() and keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
bytearray(24 << 20)
before = faults()
for _ in range(10):
    pieces = [bytearray(24 << 20), bytearray(24 << 20)]
    del pieces
print(faults() - before)
"""


def _faults(how: str) -> int:
    return int(subprocess.run([sys.executable, "-c", _FAULTS, how], capture_output=True, check=True, text=True).stdout)


def test_a_kept_piece_costs_no_page_again() -> None:
    if sys.platform.startswith("linux"):
        assert _faults("kept") * 2 < _faults("not")
    else:
        assert not keep_freed_memory()
