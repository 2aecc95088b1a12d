"""Run a command under stock Debian kernels: see README.md beside this file."""

import sys

from kernelguest.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
