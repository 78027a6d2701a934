"""A real browser for tests, where one is installed."""

import json
import shutil
from contextlib import contextmanager

import pytest

_FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
)


def _missing():
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed: pip install -e '.[dev]'"
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            return f"no {program}: apt-get install chromium chromium-driver (as root, Debian)"
    return ""


needs_browser = pytest.mark.skipif(bool(_missing()), reason=_missing() or "there is a browser")


@contextmanager
def opened(address, profile, width=1100, dark=False):
    """The page in a new, empty profile; its console and its requests are on record."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (*_FLAGS.split(), f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        driver.set_script_timeout(20)
        resized(driver, width)
        if dark:
            scheme = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
        driver.get("about:blank")
        driver.get_log("performance")  # what the browser's own first page asked for
        driver.get(address)
        yield driver
    finally:
        driver.quit()


def resized(driver, width):
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def requested(driver):
    """The addresses that the page has asked for, its own among them."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [
        m["params"]["request"]["url"]
        for m in messages
        if m["method"] == "Network.requestWillBeSent"
    ]
