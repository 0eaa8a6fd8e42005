"""`python -m redqueen` is `redqueen`."""

from redqueen.cli.app import main

if __name__ == "__main__":
    main()
