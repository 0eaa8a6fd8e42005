"""Who plays whom and who stays: ratings, matchmaking, selection. These modules import neither torch nor numpy."""
