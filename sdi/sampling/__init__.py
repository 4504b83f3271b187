"""Access ranges: which bytes of each buffer a box of work-groups reads and writes."""

from sdi.sampling.analysis import KernelAnalysis, analyse
from sdi.sampling.model import AccessRange, BoundAccess, KernelAccess, Precision, Reason

__all__ = ["AccessRange", "BoundAccess", "KernelAccess", "KernelAnalysis", "Precision", "Reason", "analyse"]
