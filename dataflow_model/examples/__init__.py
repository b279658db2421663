"""Complete programs to read and to copy from, each in a package of its own: `zeitgeist` detects spikes and dips."""
