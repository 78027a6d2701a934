"""What a site lets be done with its data: its policy, held against what a method really does."""
