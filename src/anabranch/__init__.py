"""Anabranch: scalable topics for Python and Spark.

The public client API lives here; it arrives with the client. The one thing that happens on
import is the choice between compiled and interpreted hot modules.
"""

from anabranch.runtime import build_mode

build_mode.choose()

__version__ = "0.1.0"
__all__ = ["__version__"]
