"""The base class of sources that read files: `file_source`, and those `files_at_fault`."""
