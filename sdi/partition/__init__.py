"""How the work-groups of an NDRange are shared out between members."""
