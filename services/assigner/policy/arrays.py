"""The arrays that placements are made of: indices of partitions or members, loads, and what is wanted of each."""

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
