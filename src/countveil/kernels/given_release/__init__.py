"""What is known of one noisy count: its likelihood, and draws of the true count behind it."""
