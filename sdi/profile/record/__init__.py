"""Writes down what a session does while it does it."""
