"""What users and our own tests share: a broker and worker fixture and a clock that is held."""
