"""Many programs: a folder lowered by several processes or by a cluster, every result kept under what it depends on."""
