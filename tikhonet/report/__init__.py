"""From the records of an experiment to a page, figures and tables."""

from tikhonet.report.page import Report, write_report

__all__ = ["Report", "write_report"]
