"""Members for tests: late, slow, faulty."""
