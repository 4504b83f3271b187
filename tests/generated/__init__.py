"""Generated programs: random commands from two queues, run on images of CPU members and on numpy arrays."""
