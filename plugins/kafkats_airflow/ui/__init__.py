"""The pages of kafkats inside Airflow: an app of its own behind Airflow's login and rights.

It reads the reports in the folder of all runs, and writes nothing. How to add a page `health`:

1. `reading/health.py`: functions from paths to models. `files.model` parses a file once per
   change. A file that cannot be shown becomes `files.Unreadable`, which has the reason.
2. `routes/health.py`: a `router`. A page about one run takes `run: asked.Asked`, a page about all
   runs takes `readable: rights.Readable`. These are the checks of rights: use no other dag id or
   folder. Add the router to `ROUTERS` in `app.py`.
3. The page is `rendering.page(request, "health.html", **values)`; its data is
   `GET data/health`, which returns a JSON object or a pydantic model.
4. `templates/health.html` extends `base.html`. Links and fetches are relative (`runs?sort=age`,
   `data/health?...`): all pages lie at one level. Add the page to `PAGES` in `rendering.py`.
5. `static/health.js` is an ES module, named in `{% block script %}`. It sets names by
   `textContent`, and calls `ready()` of `page.js` when the last visible row has its data. The
   headers allow neither inline scripts, nor inline styles, nor other hosts.

`tests/ui/harness.py` serves the app without Airflow: `python -m tests.ui.harness FOLDER`.
"""
