"""The OpenCL platform: API table, C client, wire, and the service's side of a session."""
