"""Which files a source has now, and what is new since it last looked.

Begin with `paths` and `matching`; then `listed_folder` and `known_files`, which make it cheap to look again,
`folder_notices` and `folder_notifier`, with which the kernel says when to, and `file_identity`. `folder_columns` and
`folder_filter` are the columns in the names of folders.
"""
