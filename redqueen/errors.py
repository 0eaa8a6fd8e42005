"""The errors that a user can correct. Each message is one line and says what to do; the command line prints only it."""


class UserError(RuntimeError):
    """Bad input or environment."""


class ModelError(UserError):
    """A base model that cannot be loaded or used here."""


class PromptError(UserError):
    """A prompt that is empty, or too long for the base."""


class AdapterError(UserError):
    """An adapter that cannot be read, or that does not fit the base."""


class WorkerError(UserError):
    """A worker process that ended before its work was done."""
