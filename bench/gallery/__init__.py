"""Applications that people use, installed from their packages, on the plain driver and on images."""
