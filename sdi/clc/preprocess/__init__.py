"""From a program with macros and includes to one self-contained text."""
