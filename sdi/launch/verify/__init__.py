"""``SDI_VERIFY``: split launches are run a second time on one member, and compared."""
