"""The ``sdi`` command: run an application on the image, show what it is made of, find what is broken."""
