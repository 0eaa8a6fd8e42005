"""A read-only page on this machine that follows a run (`redqueen watch`)."""
