"""Random sequences of API calls, which must end the same on the plain driver and on every image."""
