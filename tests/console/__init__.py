"""The console: pages by an HTTP client within the process, flows in a real browser."""
