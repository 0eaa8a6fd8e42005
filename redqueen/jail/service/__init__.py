"""The jail over HTTP: SandboxFusion's `POST /run_code`, for Python (docs/JAIL.md)."""
