"""What a commit leaves behind: begin with `publishing` and `progress`; `restoring` reads it when a run starts again."""
