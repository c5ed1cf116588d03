"""Files as the operator moves and labels them: from one place that keeps them to another, and into it."""
