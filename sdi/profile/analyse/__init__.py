"""Reads what services wrote, and says where the time went."""
