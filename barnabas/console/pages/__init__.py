"""The pages, one module per subject; `routes` lists their addresses."""
