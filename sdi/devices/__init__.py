"""Members of the image: the ``Device`` protocol and its implementations."""
