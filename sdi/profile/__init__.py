"""What a run did, and where its time went: written down by the service, shown by ``sdi profile``."""
