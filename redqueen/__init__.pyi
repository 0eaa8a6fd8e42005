from redqueen.api import Run as Run

__version__: str
