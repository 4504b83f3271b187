"""Members that do nothing, or pass everything on."""
