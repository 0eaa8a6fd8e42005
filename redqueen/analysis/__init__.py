"""What a run meant, read from what it left: hangs off the side, only the commands import it."""
