"""The errors that a user can correct. Each message is one line that says what to do."""

# Whatever derives from UserError is printed without a traceback (see `redqueen.cli.app.main`). Any other exception is a
# bug of ours and keeps its traceback, so nothing that we could have got wrong should derive from it.


class UserError(RuntimeError):
    """Input or an environment that does not work."""


class ModelError(UserError):
    """A base model that cannot be loaded or used here."""


class PromptError(UserError):
    """A prompt that is empty, or too long for the base."""


class AdapterError(UserError):
    """An adapter that cannot be read, or that does not fit the base."""


class MismatchError(UserError):
    """Texts that were sampled with other weights than those that are trained."""


class WorkerError(UserError):
    """A worker process that ended before its work was done."""
