"""Pictures and reports for people."""

from countveil.report.method_result import MethodResult
from countveil.report.plot_comparison import comparison_picture

__all__ = ["MethodResult", "comparison_picture"]
