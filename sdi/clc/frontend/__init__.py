"""From preprocessed text to the tree that the passes read."""
