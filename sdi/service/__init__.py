"""The service's side of a session: what an application's records ask for, and the answers."""
