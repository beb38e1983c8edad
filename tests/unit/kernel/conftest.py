"""Which tests a machine can run: Atheris exists for Linux on x86-64, up to Python 3.13."""

import platform
import sys

_HAS_ATHERIS = sys.platform == "linux" and platform.machine() == "x86_64" and sys.version_info < (3, 14)

collect_ignore = [] if _HAS_ATHERIS else ["test_fuzzing.py"]
