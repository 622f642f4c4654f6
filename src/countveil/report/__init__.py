"""Pictures and reports for people."""

from countveil.report.comparison_picture import comparison_picture
from countveil.report.method_result import MethodResult

__all__ = ["MethodResult", "comparison_picture"]
