"""What is done with members of a run: they are asked, scored and exported. Nothing is printed here."""
