"""The language `expr`: expressions over two small integers, in which a small model learns in minutes."""
