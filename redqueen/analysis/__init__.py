"""Studies of runs, made from the files that a run leaves. Only the commands import this package."""
