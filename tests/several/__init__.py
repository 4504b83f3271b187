"""Programs for several devices of one platform, none of which knows where these are."""
