from redqueen.api import Answer as Answer
from redqueen.api import Run as Run
from redqueen.api import compare as compare

__version__: str
