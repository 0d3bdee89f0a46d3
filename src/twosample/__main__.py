"""`python -m twosample`: the command line."""

from ._cli.main import main

if __name__ == "__main__":
    main()
