"""Members of other processes: transport, nodes that serve their members, and members that stand for them."""
