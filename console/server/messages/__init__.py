"""Records of streams for the Messages page: read within bounds, decoded as data, and produced one at a time.

This is the only room of the console that reaches brokers. It does so as an SDK client with a Kafka profile of its own,
after the mesh said that the caller may.
"""
