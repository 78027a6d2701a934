"""What keeps replies from telling too much, and hostile ones from doing too much."""
