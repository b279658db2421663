"""Well-known names of Beam, PySpark and Flink, and what they are called here: begin with `spellings`."""
