"""What a job of many nodes would take: sdi's own plans, on links and nodes whose costs are measured or given."""
