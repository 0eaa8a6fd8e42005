"""The base of all errors that a user can mend."""


class UserError(RuntimeError):
    """Bad input or surroundings. The message is one line and says what to do; the command line prints only it."""
