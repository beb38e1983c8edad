"""Types of the arrays in placements: indices of partitions or members, loads, and masks."""

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
