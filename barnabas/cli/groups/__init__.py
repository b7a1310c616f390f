"""Parts of `barnabas group`.

arguments: groups as arguments, completed by the shell
offsets_topic: where a group's offsets are
seek: `group seek` and `group undo`
targets: the offsets in a file for `group seek`
watch: `group watch`
"""
