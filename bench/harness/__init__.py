"""What contests need: rounds, tables, a broker or a mesh to play on, load."""
