"""What a job of many nodes would take: sdi's own plans, on links and nodes of known costs."""
