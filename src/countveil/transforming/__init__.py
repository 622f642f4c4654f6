"""New rows, by a posterior: where they stand among the topics or communities that were found before."""

from countveil.transforming.memberships import transform
from countveil.transforming.to_file import transform_to_file

__all__ = ["transform", "transform_to_file"]
