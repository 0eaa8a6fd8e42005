"""What the command line's commands do."""
