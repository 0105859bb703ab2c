"""From the records of an experiment to a page, figures and tables."""

from tikhonet.report.page import write_report
from tikhonet.report.rendering import Report

__all__ = ["Report", "write_report"]
