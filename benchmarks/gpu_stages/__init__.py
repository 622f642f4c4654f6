"""The stages of ``gpu_session.py``, some to a file.

============ ==========================================================================================
``session``  where things are and how large; processes, samplers and clocks that stages share
``laws``     laws, twins
``variants`` variants, networks
``topics``   whole, sizes
``million``  million
``ratio``    ratio
``chains``   chains
``markdown`` tables of what they found
============ ==========================================================================================
"""

import numpy as np

if not hasattr(np, "row_stack"):  # newer than the numba that is there
    setattr(np, "row_stack", np.vstack)  # noqa: B010 (as an attribute, ruff would mend it away)
