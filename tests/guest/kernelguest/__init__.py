"""Boot stock Debian kernels in QEMU and run a command of this machine in them."""
