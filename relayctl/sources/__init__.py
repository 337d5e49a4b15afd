"""Where desired state comes from: each source yields (revision, directory)."""
