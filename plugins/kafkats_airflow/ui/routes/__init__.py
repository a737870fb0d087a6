"""The routes of the pages, one module per page. `ROUTERS` in `ui/app.py` lists them."""
