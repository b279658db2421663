"""Lines of JSON and whole documents as sources: begin with `json_source`, `json_parsing` and `json_documents`."""
