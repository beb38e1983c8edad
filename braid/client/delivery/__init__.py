"""Records of a partition between the fetch and the handler: lanes, order, bounds, acknowledgements."""
