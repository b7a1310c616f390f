"""What an error number of the operating system means, and what it is about.

Always: an error of the process or of the machine's memory says nothing about the disk: the call is
refused and may be repeated. After any other error, unless the disk is full, the log directory goes
offline.
"""

import errno

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
# only from calls that open a file: nothing was changed
NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
OUT_OF_RESOURCES = (*NO_DESCRIPTORS, errno.ENOMEM)
