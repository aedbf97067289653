# SPDX-License-Identifier: Apache-2.0
"""`python -m lagom`, the same as `lagom`."""

import sys

from .cli import main

sys.exit(main())
