"""The pure core: values, rules and ports. Nothing here does I/O, reads a clock or draws a random number."""
