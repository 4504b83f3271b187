"""Why kernels are split as they are, or run whole, as values and as text."""
