"""What a recorded run would take on other numbers of members, or on members with other rates."""
