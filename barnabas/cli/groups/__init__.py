"""Parts of `barnabas group`.

arguments: groups as arguments, completed by the shell
seek: `group seek` and `group undo`
targets: where `group seek` can go
text: a group as text, rows and documents
watch: `group watch`
"""
