"""`python -m zcopy`."""

from zcopy.cli.main import main

if __name__ == "__main__":
    main()
