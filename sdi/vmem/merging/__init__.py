"""What several wrote to copies of the same bytes, brought together: on the host or on members."""
