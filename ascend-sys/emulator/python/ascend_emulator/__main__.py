"""Prints the directory of the libraries, or with `--home` that for ASCEND_HOME_PATH."""

import argparse

import ascend_emulator

parser = argparse.ArgumentParser(prog="python -m ascend_emulator", description=__doc__)
parser.add_argument("--home", action="store_true", help="print the directory for ASCEND_HOME_PATH")
print(ascend_emulator.home if parser.parse_args().home else ascend_emulator.lib)
