"""From the records of an experiment to a page, figures and tables."""

from tikhonet.paper.report.page import write_report
from tikhonet.paper.report.rendering import Report

__all__ = ["Report", "write_report"]
