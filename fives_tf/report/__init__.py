"""The report of a search: data first (`data.py`), and a page that shows it (`page.py`)."""
