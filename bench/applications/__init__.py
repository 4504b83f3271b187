"""The eleven applications of papers/1 table 2, two stencils, a lattice gas and a sparse product.

Ordinary OpenCL programs for one device: ``python -m bench.applications --size smoke`` runs them on the first
device there is, and checks what they computed.  ``NAMES`` are the modules, in the table's order.
"""

NAMES = (
    "binomial_option",
    "black_scholes",
    "correlator",
    "cp",
    "eigenvalue",
    "ep",
    "matrix_mul",
    "mri_q",
    "nbody",
    "rpes",
    "tpacf",
    "stencil2d",
    "stencil3d",
    "lattice_boltzmann",
    "spmv",
)
