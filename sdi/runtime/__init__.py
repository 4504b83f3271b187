"""Command scheduler, virtual GPU device and programs: the only place that wires the packages together."""
