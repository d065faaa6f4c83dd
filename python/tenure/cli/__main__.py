# SPDX-License-Identifier: Apache-2.0
"""`python -m tenure.cli`."""

from tenure.cli import main

main()
