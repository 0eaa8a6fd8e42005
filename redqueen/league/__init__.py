"""Who plays whom, and who stays: ratings, matchmaking, selection. These modules need neither torch nor numpy."""
