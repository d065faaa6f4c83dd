# SPDX-License-Identifier: Apache-2.0
"""``python -m tenure.cli``: the command line."""

from tenure.cli import main

if __name__ == "__main__":
    main()
